// Catches: a program that dies of an error event, a rejection or a handler of its own that throws; and one that prints
// what its tasks are about when something fails.
import { describe, expect, onTestFinished, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { startTestRedis } from "../support/redis.ts";
import { makeWorld, resultsOf, runIdOf, type World } from "../support/world.ts";
import { type Embedder, startEmbedder } from "./support/embedder-options.ts";
import { judge } from "./support/judge.ts";
import { isLong } from "./support/seed.ts";

const canary = "canary-5f1d";
const turnCount = 5;
const restarts = isLong ? 5 : 3;

function respond(request: FakeRequest): FakeReply {
  const turn = turnOf(request.body);
  const text = `${canary} ${turn} of ${runIdOf(request)}`;
  if (turn === turnCount) return { text };
  const names = ["look", "throw", "strange", ...(runIdOf(request) === "hostile-0" && turn === 1 ? ["guarded"] : [])];
  return { text, delayMs: 40, toolCalls: names.map((name) => ({ name, arguments: { note: `${canary} ${turn}` } })) };
}

async function open(hostile: boolean): Promise<{ world: World; embedder: Embedder; server: TestServer }> {
  const server = await startTestRedis({ own: true });
  onTestFinished(() => server.stop());
  const world = await makeWorld({ respond, server });
  const { redisUrl, prefix, baseURL, ledgerDir } = world.options;
  return { world, server, embedder: await startEmbedder({ redisUrl, prefix, baseURL, ledgerDir, hostile }) };
}

type TestServer = Awaited<ReturnType<typeof startTestRedis>>;

function expectDiscreet(output: string): void {
  expect(output).not.toContain(canary);
  // A client's error holds the command: the text of a script, and the arguments.
  expect(output).not.toMatch(/redis\.call|command:\s*\{|args:\s*\[/);
  expect(output).not.toMatch(/unhandled|uncaught/i);
}

async function ended(world: World, runs: string[]): Promise<void> {
  await resultsOf(
    runs.map((runId) => world.drover.get(runId)),
    60_000,
  );
}

/** Judged before it ends: steps that were in hand when Redis went away need a worker that finds them. */
async function expectSound(world: World, embedder: Embedder, runs: string[]): Promise<void> {
  await ended(world, runs);
  await judge(world);
  expect(embedder.exited()).toBe(false);
  expect(await embedder.end()).toBe(0);
  expectDiscreet(embedder.output());
}

describe("a program that handles nothing", () => {
  test("[Q20] outlives restarts of Redis, a write that fails, and prints nothing of its tasks", async () => {
    const { world, server, embedder } = await open(false);
    const runs: string[] = [];
    for (let restart = 0; restart < restarts; restart += 1) {
      const ids = Array.from({ length: isLong ? 20 : 4 }, (_, index) => `embedded-${restart}-${index}`);
      const before = world.server.requests.length;
      for (const runId of ids) expect(await embedder.start(runId, `${runId} ${canary}`)).toBe(true);
      runs.push(...ids);
      await world.server.received(before + 2);
      // Not killed: one that is, more than once in the middle of a write, brings back half of a transaction that it had lost.
      await server.cli("SHUTDOWN").catch(() => {}); // it answers by closing the connection
      // It fails, and the program prints the error as it is.
      expect(await embedder.start(`refused-${restart}`, `refused ${canary}`)).toBe(false);
      await server.restart();
      await eventually(() => world.drover.list({ limit: 1 }).catch(() => undefined));
      await eventually(async () => ((await embedder.start(`again-${restart}`, "again go")) ? true : undefined));
      runs.push(`again-${restart}`);
    }
    // A script that fails in the middle has done the half of it: no run may be at work meanwhile.
    await ended(world, runs);
    const list = world.keys.listByAgent("embedded");
    await world.redis.rename(list, `${list}:aside`);
    await world.redis.set(list, "of another type");
    expect(await embedder.start("wrong-1", `wrong ${canary}`)).toBe(false);
    await world.redis.rename(`${list}:aside`, list);
    expect(embedder.output()).toMatch(/queue_unavailable[\s\S]*WRONGTYPE/);
    await expectSound(world, embedder, runs);
  });

  test("[Q20] outlives a logger, telemetry, a tool and an approval that throw, and completes its runs", async () => {
    const { world, embedder } = await open(true);
    const runs = Array.from({ length: isLong ? 50 : 5 }, (_, index) => `hostile-${index}`);
    for (const runId of runs) expect(await embedder.start(runId, `${runId} ${canary}`)).toBe(true);
    // Whether it needs an approval could not be told, so a person is asked.
    const run = world.drover.get("hostile-0");
    await eventually(async () => ((await run.status()).openCalls.length === 1 ? true : undefined));
    await run.approve("call-1-4", { by: "ann" });
    await expectSound(world, embedder, runs);
    expect(embedder.output().match(/The logger given to Drover fails/g)?.length).toBe(1);
  });
});
