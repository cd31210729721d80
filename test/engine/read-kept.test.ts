// Catches: a call's id, which is a caller's word, that finds something other than a result.
import { expect, test } from "vitest";
import { defineAgent } from "../../src/define-agent.ts";
import { createMemoryDrover, scriptedModel } from "../../src/testing/index.ts";

test.each(["constructor", "toString", "__proto__"])("there is no result of a call named %s", async (callId) => {
  const drover = createMemoryDrover({
    agents: [defineAgent({ name: "a", instructions: "", model: scriptedModel(["done"]) })],
  });
  await drover.work();
  const run = await drover.start("a", "go");
  await run.result();
  await expect(run.readResult(callId)).rejects.toMatchObject({ code: "not_found" });
  await drover.close();
});
