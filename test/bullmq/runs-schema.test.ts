import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Validator } from "@cfworker/json-schema";
import { describe, expect, test } from "vitest";
import { makeRunsSchema } from "../../src/bullmq/runs-schema.ts";
import { startPayloadSchema } from "../../src/core/new-run.ts";

const validator = new Validator(makeRunsSchema(), "2020-12", false);
const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

const good: [string, unknown][] = [
  ["text", { agent: "assistant", input: "Do I need an umbrella in Oslo?" }],
  ["messages", { agent: "assistant", input: [{ role: "user", content: "hello" }] }],
  [
    "messages in parts, with fields of a provider",
    {
      agent: "a",
      input: [
        { role: "user", content: [{ type: "image_url", image_url: { url: "data:image/png;base64,AA==" }, detail: 1 }] },
      ],
    },
  ],
  [
    "everything",
    {
      agent: "assistant",
      input: [
        { role: "system", content: "Be brief." },
        { role: "assistant", content: "", toolCalls: [{ id: "a", name: "look", arguments: "{}" }] },
        { role: "tool", toolCallId: "a", content: "sunny" },
        { role: "user", content: "hello" },
      ],
      session: "chat-7",
      metadata: { order: 42, tags: ["a", null], nested: { ok: true } },
      limits: { maxTurns: 3, maxTokens: 10_000, maxCostUsd: 0.5, deadlineMs: 60_000 },
      dryRun: true,
      by: "ann",
      traceparent,
    },
  ],
];

const bad: [string, unknown][] = [
  ["no object", "hello"],
  ["a list", [{ agent: "a", input: "b" }]],
  ["nothing", null],
  ["no agent", { input: "hello" }],
  ["an empty agent", { agent: "", input: "hello" }],
  ["an agent that is no text", { agent: 7, input: "hello" }],
  ["a very long agent", { agent: "a".repeat(129), input: "hello" }],
  ["no input", { agent: "a" }],
  ["an empty input", { agent: "a", input: "" }],
  ["no messages", { agent: "a", input: [] }],
  ["a tool's message that names no call", { agent: "a", input: [{ role: "tool", content: "x" }] }],
  ["a message without content", { agent: "a", input: [{ role: "user" }] }],
  ["a message with a field too many", { agent: "a", input: [{ role: "user", content: "x", tool_calls: [] }] }],
  ["a part without type", { agent: "a", input: [{ role: "user", content: [{ text: "x" }] }] }],
  ["a dry run that is neither", { agent: "a", input: "b", dryRun: "yes" }],
  ["nobody who starts it", { agent: "a", input: "b", by: "" }],
  ["a field too many", { agent: "a", input: "b", prio: 1 }],
  ["a session that is no id", { agent: "a", input: "b", session: "12" }],
  ["metadata that is no object", { agent: "a", input: "b", metadata: "x" }],
  ["no turns", { agent: "a", input: "b", limits: { maxTurns: 0 } }],
  ["half a turn", { agent: "a", input: "b", limits: { maxTurns: 1.5 } }],
  ["free of charge", { agent: "a", input: "b", limits: { maxCostUsd: 0 } }],
  ["a limit that is not known", { agent: "a", input: "b", limits: { turns: 1 } }],
  ["a traceparent in capitals", { agent: "a", input: "b", traceparent: traceparent.toUpperCase() }],
];

describe("the published schema of the runs queue", () => {
  test.each(good)("takes %s, as the parser does", (_name, payload) => {
    expect(validator.validate(payload)).toMatchObject({ valid: true });
    expect(startPayloadSchema.safeParse(payload).success).toBe(true);
  });

  test.each(bad)("refuses %s, as the parser does", (_name, payload) => {
    expect(validator.validate(payload)).toMatchObject({ valid: false });
    expect(startPayloadSchema.safeParse(payload).success).toBe(false);
  });

  test("has an id, a title, and a description of each field", () => {
    const schema = makeRunsSchema();
    expect(schema).toMatchObject({
      $id: "urn:drover:runs:start:1",
      title: expect.any(String),
      required: ["agent", "input"],
    });
    const properties = Object.values(schema.properties as Record<string, { description?: string }>);
    expect(properties).toHaveLength(11);
    expect(properties.every(({ description }) => typeof description === "string")).toBe(true);
  });

  test("is written by the build's script", () => {
    const dir = mkdtempSync(join(tmpdir(), "drover-schema-"));
    try {
      const target = join(dir, "out", "runs.schema.json");
      execFileSync(process.execPath, ["scripts/write-schema.ts", target]);
      expect(JSON.parse(readFileSync(target, "utf8"))).toEqual(makeRunsSchema());
    } finally {
      rmSync(dir, { recursive: true });
    }
  });
});
