// Catches: "check" telling of an approval or an effect that a tool which a person answers does not have.
import { expect, test } from "vitest";
import { settingsUnder, toSettingsRows } from "../../src/cli/format/policy.ts";
import { defineAgent } from "../../src/define-agent.ts";
import { scriptedModel } from "../../src/testing/index.ts";
import { askPerson } from "../../src/tools/stock/ask-person.ts";

const agent = defineAgent({
  name: "asker",
  instructions: "Ask.",
  model: scriptedModel([]),
  tools: [askPerson({ expiresMs: 60_000 })],
});

test.each([
  [[], ["asker", "ask_person", "answered by a person", "", "60 s", "the tool's own"]],
  [
    [{ tool: "*", approval: "always" as const, effect: "irreversible" as const }],
    ["asker", "ask_person", "answered by a person", "", "60 s", "the tool's own"],
  ],
  [
    [{ tool: "ask_*", approvalExpiresMs: 5_000 }],
    ["asker", "ask_person", "answered by a person", "", "5 s", "policy rule 1: approvalExpiresMs 5000"],
  ],
  [[{ tool: "*", allow: false }], ["asker", "ask_person", "not allowed", "", "", "policy rule 1: allow false"]],
])("under %j a question is told as one", (policy, row) => {
  const settings = settingsUnder([agent], policy);
  expect(toSettingsRows(settings)[1]).toEqual([row]);
  expect(settings).toMatchObject([{ answeredBy: "person" }]);
});
