// Catches: a huge result that fails the run, fills the worker, or cannot be read afterwards.
import { fork } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { z } from "zod";
import { createDrover, defineAgent, defineTool, openai } from "../../src/index.ts";
import { runDrover } from "../cli/run-drover.ts";
import { startFakeOpenai } from "../support/fake-openai.ts";
import { startTestRedis } from "../support/redis.ts";
import { problemsOf } from "../support/transcript.ts";
import { makeWorld } from "../support/world.ts";

test("a result of twelve million characters is cut, read on by the model in two ranges, and read whole by people", async () => {
  const line = (n: number): string => `row ${String(n).padStart(7, "0")};`;
  const table = Array.from({ length: 1_000_000 }, (_, n) => line(n)).join("");
  const server = await startFakeOpenai({
    respond: ({ body }) => {
      const results = body.messages.filter(({ role }) => role === "tool");
      const read = (from: number) => ({
        toolCalls: [{ name: "read_result", arguments: { result: "call-1-1", from } }],
      });
      if (results.length === 0) return { toolCalls: [{ name: "query", arguments: {} }] };
      if (results.length < 3) return read(results.length * 5_000_000);
      return `saw ${results.map(({ content }) => String(content).length).join(", ")} characters`;
    },
  });
  const query = defineTool({
    name: "query",
    description: "Gives all rows.",
    parameters: z.object({}),
    effect: "read",
    execute: () => table,
  });
  const model = openai({ model: "gpt-5-mini", baseURL: server.url, apiKey: "none" });
  const agent = defineAgent({ name: "analyst", instructions: "Look.", model, tools: [query] });
  const redis = await startTestRedis();
  const drover = createDrover({ redis: redis.url, prefix: redis.prefix, agents: [agent] });
  try {
    await drover.work();
    const run = await drover.start(agent, "go");
    const { status } = await run.result({ timeoutMs: 60_000 });
    expect(status).toBe("completed");
    for (const { body } of server.requests) expect(JSON.stringify(body.messages).length).toBeLessThan(60_000);
    const results = (await run.transcript())
      .filter(({ role }) => role === "tool")
      .map(({ content }) => String(content));
    const ranges = results
      .slice(1)
      .map((text) => /^\[characters (\d+) to (\d+) of 12000000;[^\]]*\]\n(.*)$/s.exec(text) ?? []);
    for (const [, from, to, text] of ranges) expect(text).toBe(table.slice(Number(from), Number(to)));
    expect(ranges.map(([, from]) => Number(from))).toEqual([5_000_000, 10_000_000]);
    let whole = "";
    while (whole.length < table.length)
      whole += (await run.readResult("call-1-1", { from: whole.length, length: 3_000_000 })).text;
    expect(whole === table).toBe(true);
  } finally {
    await drover.close();
    await server.stop();
    await redis.stop();
  }
}, 90_000);

test("a worker killed between keeping a result and committing it leaves nothing behind, and the run goes on", async () => {
  const note = "0123456789";
  const world = await makeWorld({
    respond: ({ body }) => {
      const results = body.messages.filter(({ role }) => role === "tool").map(({ content }) => String(content));
      if (results.length === 0) return { toolCalls: [{ name: "look", arguments: { note, bytes: 3_000_000 } }] };
      const read = { result: "call-1-1", from: 1_100_000, length: 22 };
      return results.length === 1
        ? { toolCalls: [{ name: "read_result", arguments: read }] }
        : { text: results[1] ?? "" };
    },
  });
  const holder = await world.work({ holdOutputs: true });
  const run = await world.drover.start("e2e", "go", { runId: "results-1" });
  await world.gate.next({ what: "kept" });
  await world.work();
  holder.kill9();
  const { status, output } = await run.result({ timeoutMs: 60_000 });
  expect(status).toBe("completed");
  expect(output).toBe(`[characters 1100000 to 1100022 of 3000000; to read on use "from": 1100022]\n${note} ${note}`);
  const messages = await run.transcript();
  expect(problemsOf(messages)).toEqual([]);
  expect(messages.filter(({ role }) => role === "tool")).toHaveLength(2);
  const fields = await world.redis.hkeys(world.keys.run(run.id).outputs);
  expect(new Set(fields.map((field) => field.split(":")[0])).size).toBe(1);
  const shown = await runDrover(["show", run.id, "--result", "call-1-1", "--from", "1000000"], {
    env: { REDIS_URL: world.options.redisUrl, DROVER_PREFIX: world.prefix },
  });
  expect(shown.stderr).toBe("");
  expect(shown.stdout).toBe(`${`${note} `.repeat(300_000).slice(1_000_000, 3_000_000)}\n`);
}, 90_000);

test("a worker takes results of a hundred megabytes one after the other in bounded memory", async () => {
  const redis = await startTestRedis();
  const file = new URL("../support/flood-program.ts", import.meta.url).pathname;
  const child = fork(file, [redis.url, redis.prefix, "20"], {
    execArgv: ["--expose-gc"],
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  try {
    const [after] = (await once(child, "message")) as [number[]];
    await once(child, "exit");
    expect(after).toHaveLength(20);
    expect(Math.max(...after)).toBeLessThan(900);
    // Four parts of 100 MB each lie between these two: none of the texts behind them is still there.
    expect((after[19] ?? 0) - (after[3] ?? 0)).toBeLessThan(120);
  } finally {
    child.kill("SIGKILL");
    await redis.stop();
  }
}, 90_000);
