// Catches: a judge that no longer looks once a run has ended, though a worker that was frozen goes on with it; and one that
// takes a process which a tool kept busy for one that had heard.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import type { Finding } from "../../src/chaos/evidence.ts";
import type { Execution } from "../../src/chaos/execution.ts";
import type { Hint } from "../../src/chaos/hints.ts";
import { createJudging, type JudgingOptions } from "../../src/chaos/judging.ts";
import { openLedger } from "../../src/chaos/ledger.ts";
import { remainsOf } from "../../src/chaos/leftovers.ts";
import { play } from "../../src/chaos/play.ts";
import { type Silence, watchPulse } from "../../src/chaos/pulse.ts";
import type { Script } from "../../src/chaos/script.ts";
import { defineAgent } from "../../src/define-agent.ts";
import { scriptedModel } from "../../src/testing/index.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { startPrivateRedis } from "../support/redis-server.ts";

const pay = defineTool({
  name: "pay",
  description: "Pays.",
  parameters: z.object({}),
  effect: "irreversible",
  approval: "never",
  execute: () => "paid",
});
const put = defineTool({
  ...{ name: "put", description: "Puts.", parameters: z.object({}), idempotent: true },
  execute: () => "put",
});
const agent = defineAgent({ name: "payer", instructions: "Pay.", model: scriptedModel([]), tools: [pay, put] });
const script: Script = [
  {
    text: "one",
    toolCalls: [
      { name: "pay", arguments: {} },
      { name: "put", arguments: {} },
    ],
  },
  { text: "done", toolCalls: [] },
];

test("what is done in the name of a run after it was judged is judged too, and told once", async () => {
  const dir = mkdtempSync(join(tmpdir(), "drover-judging-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const runId = "chaos-7";
  const { run, messages, feed, executions } = await play({
    ...{ agent, runId, seed: 1, scripts: () => script, isReal: () => false, schedule: [] },
  });
  const store = {
    load: async () => run,
    readMessages: async (_id: string, from: number, to: number) => messages.slice(from, to),
    readFeed: async () => feed,
    list: async () => ({ runs: [run] }),
  };
  const ledger = openLedger(dir);
  const note = (more: object): void => {
    for (const one of executions) ledger.note({ ...one, ...more } as Execution);
  };
  const findings: Finding[] = [];
  const hints: Hint[] = [];
  const judging = createJudging({
    ...{ agents: [agent], seed: 1, scriptsOf: () => () => script, dir, fleetPauses: () => [], frozen: () => [] },
    backend: { store } as unknown as JudgingOptions["backend"],
    isOver: () => false,
    signal: new AbortController().signal,
    tell: (found) => findings.push(...found),
    onHints: (more) => hints.push(...more),
  });
  note({});
  await judging.judge({ agent, runId, done: { retries: 0 }, ends: undefined });
  await judging.judgeRest();
  await judging.judgeLate();
  expect([...findings, ...hints]).toEqual([]);
  note({ pid: 99, result: "another" });
  for (let times = 0; times < 2; times += 1) await judging.judgeLate();
  expect(findings).toEqual([
    { kind: "effect", runId, message: expect.stringMatching(/^pay may not run again and ran 2 times/) },
  ]);
  expect(hints[0]).toEqual({ tool: "put", key: expect.stringMatching(/^chaos-7:/) });
});

test("when all runs are deleted, a step, a record and a list that names one are told; what an installation has is not", async () => {
  const server = await startPrivateRedis({});
  const client = new Redis(server.url);
  onTestFinished(async () => {
    client.disconnect();
    await server.stop();
  });
  await client.set("{p}:q:model:1-0-chaos-1", "a step");
  await client.zadd("{p}:r:list:agent:a", 1, "chaos-2");
  await client.hset("{p}:r:agents", "errand", "{}");
  await client.rpush("{p}:r:session:talk-1:messages", "chaos chaos-7");
  await client.set("{p}:r:run:chaos-3.call-1-1.x", "a record");
  const call = (name: string, ...args: (string | number)[]): Promise<unknown> => client.call(name, ...args);
  const { steps, keys, bytes } = await remainsOf({ call }, "{p}");
  expect(steps).toEqual(["{p}:q:model:1-0-chaos-1"]);
  expect(keys.toSorted()).toEqual([...steps, "{p}:r:list:agent:a", "{p}:r:run:chaos-3.call-1-1.x"]);
  expect(bytes).toBeGreaterThan(0);
});

test("a process tells how long a tool kept its thread, also before it notes anything else", async () => {
  const silences: Silence[] = [];
  const check = watchPulse((silence) => silences.push(silence));
  await sleep(150);
  check();
  const before = silences.length;
  const from = Date.now();
  while (Date.now() - from < 600);
  check();
  const [told] = silences.slice(before);
  expect(told?.to).toBeGreaterThanOrEqual(from + 600);
  expect((told?.to ?? 0) - (told?.from ?? 0)).toBeGreaterThanOrEqual(600);
});
