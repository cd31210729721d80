// Where secrets are redacted: on every way out of a run, and with `stored` on the way in.
import { expect, test } from "vitest";
import type { RunFeedEvent } from "../src/core/feed.ts";
import { defineAgent } from "../src/define-agent.ts";
import type { RunHandle } from "../src/engine/run-handle.ts";
import { createMemoryDrover, type MemoryDroverOptions } from "../src/testing/memory-drover.ts";
import { scriptedModel } from "../src/testing/scripted-model.ts";
import { defineTool } from "../src/tools/define-tool.ts";

const lines: string[] = [];
const put =
  (level: string) =>
  (fields: Record<string, unknown>, message: string): void =>
    void lines.push(JSON.stringify({ level, ...fields, message }));
const logger = { debug: put("debug"), info: put("info"), warn: put("warn"), error: put("error") };

const common = {
  description: "Reads a secret.",
  parameters: { type: "object", properties: { password: { type: "string" } } },
};
const vault = defineTool({
  ...common,
  name: "vault",
  effect: "read",
  execute: (_args, ctx) => {
    ctx.log.warn({ password: "hunter2" }, "read password=hunter2 for CUST-17");
    return { password: "hunter2", customer: "CUST-17" };
  },
});
const wipe = defineTool({ ...common, name: "wipe", effect: "irreversible", execute: () => "done" });

async function start(redaction: MemoryDroverOptions["redaction"]): Promise<RunHandle> {
  const agent = defineAgent({
    name: "a",
    instructions: "x",
    model: scriptedModel([
      { text: "reading with token=abc123def now", toolCalls: [{ name: "vault", arguments: { password: "hunter2" } }] },
      { toolCalls: [{ name: "wipe", arguments: { password: "hunter2", customer: "CUST-17" } }] },
      { text: "It is redis://u:hunter2@h and CUST-17." },
    ]),
    tools: [vault, wipe],
  });
  const drover = createMemoryDrover({ agents: [agent], logger, redaction });
  await drover.work();
  return drover.start("a", "my password is hunter2, CUST-17", { runId: "r-1" });
}

async function waiting(run: RunHandle): Promise<Awaited<ReturnType<RunHandle["status"]>>> {
  for await (const event of run.events()) if (event.type === "approval_asked") return run.status();
  throw new Error("it never asked");
}

const patterns = [{ name: "customer", pattern: /CUST-\d+/ }];

test("results, states and logs never show a secret; the record is as it was", async () => {
  const run = await start({ patterns });
  const view = await waiting(run);
  expect(view.openCalls[0]).toMatchObject({
    tool: "wipe",
    arguments: '{"password":"[redacted: password]","customer":"[redacted: customer]"}',
  });
  expect(JSON.stringify(view)).not.toMatch(/hunter2|CUST-/);
  await run.approve("call-2-1", { by: "ann" });
  const { output } = await run.result();
  expect(output).toBe("It is redis://u:[redacted: password]@h and [redacted: customer].");
  expect(JSON.stringify(await run.audit())).not.toMatch(/hunter2|CUST-/);
  expect(lines.join("\n")).toContain("read password=[redacted: password] for [redacted: customer]");
  expect(lines.join("\n")).not.toMatch(/hunter2|CUST-/);
  expect(JSON.stringify(await run.transcript())).toMatch(/hunter2.*CUST-17/);
});

test("with `stored` only the arguments of calls are kept as they were", async () => {
  const run = await start({ patterns, stored: true });
  await waiting(run);
  await run.approve("call-2-1", { by: "ann" });
  await run.result();
  const messages = (await run.transcript()).map((message) => ({ ...message, toolCalls: undefined }));
  const events: RunFeedEvent[] = [];
  for await (const event of run.events()) events.push(event);
  const told = events.map((event) => ("answer" in event ? { ...event, answer: undefined } : event));
  expect(JSON.stringify([messages, told])).not.toMatch(/hunter2|CUST-|abc123def/);
  expect(JSON.stringify(messages)).toContain("[redacted: customer]");
  expect(events.some((event) => event.type === "text_superseded")).toBe(false);
});

test("a pattern that cannot be used is refused at once", () => {
  const make = (): unknown =>
    createMemoryDrover({ agents: [], redaction: { patterns: [{ name: "x", pattern: "a*" }] } });
  expect(make).toThrow(/patterns\.0: "a\*" matches the empty text/);
});
