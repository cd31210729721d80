// Catches: a connection per run, per request or per watcher; one that stays open; and a process that does not end.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { startTestRedis } from "../support/redis.ts";
import { startServerProcess } from "../support/worker-process.ts";
import { makeWorld, runIdOf, type World } from "../support/world.ts";
import { tellFigure } from "./support/figure.ts";
import { judge } from "./support/judge.ts";
import { isLong } from "./support/seed.ts";

const runCount = isLong ? 2_000 : 100;
const atOnce = 50;

function respond(request: FakeRequest): FakeReply {
  const turn = turnOf(request.body);
  const text = `${turn} of ${runIdOf(request)}`;
  return turn === 2 ? { text } : { text, toolCalls: [{ name: "look", arguments: { note: "a" } }] };
}

/** Starts a run over HTTP and follows it to its end. */
async function runOne(url: string, runId: string): Promise<void> {
  const body = JSON.stringify({ agent: "e2e", input: `${runId} go`, runId });
  const headers = { "content-type": "application/json" };
  const started = await fetch(`${url}/runs`, { method: "POST", headers, body });
  expect(started.status).toBeLessThan(300);
  await started.arrayBuffer();
  const events = await fetch(`${url}/runs/${runId}/events`);
  expect(await events.text()).toContain("run_ended");
}

/** Connections by the names that they give themselves, those without one too, but for the test's own. */
async function connections({ redis }: World): Promise<Record<string, number>> {
  const lines = String(await redis.client("LIST")).split("\n");
  const names = lines.flatMap((line) => / name=(\S*)/.exec(line)?.[1] ?? []).filter((name) => name !== "test");
  return Object.fromEntries([...Map.groupBy(names, (name) => name)].map(([name, all]) => [name, all.length]));
}

test("[Q26] a process holds the same few connections however many runs and watchers there are, and none when it ends", async () => {
  const redis = await startTestRedis({ own: true });
  onTestFinished(() => redis.stop());
  const world = await makeWorld({ respond, server: redis });
  await world.drover.close();
  await world.redis.client("SETNAME", "test");
  const [server, worker] = await Promise.all([startServerProcess(world.options), world.work()]);
  const ids = Array.from({ length: runCount }, (_, index) => `linked-${index}`);
  await runOne(server.url, "linked-first");
  const seen: Record<string, number>[] = [];
  const done = new AbortController();
  const sampling = (async (): Promise<void> => {
    while (!done.signal.aborted) {
      seen.push(await connections(world));
      await sleep(20);
    }
  })();
  const left = ids.values();
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (const runId of left) await runOne(server.url, runId);
    }),
  );
  done.abort();
  await sampling;
  // The formula of docs/operations.md: a server has 2; a worker 3 and one for each queue that it serves.
  const formula = { "drover-producer": 1, "drover-worker": 1, "drover-subscriber": 2, "drover-step-worker": 1 + 3 };
  for (const sample of seen) expect(sample).toEqual(formula);
  expect(seen.length).toBeGreaterThan(5);
  server.terminate();
  worker.terminate();
  expect([(await server.exit).code, (await worker.exit).code]).toEqual([0, 0]);
  await eventually(async () => (Object.keys(await connections(world)).length === 0 ? true : undefined));
  await judgeAfter(world);
  tellFigure(
    "Q26",
    `${runCount} runs, ${atOnce} at once: ${JSON.stringify(formula)} connections in ${seen.length} looks`,
  );
});

/** The world's own producer was closed, so that it would not be counted. */
async function judgeAfter(world: World): Promise<void> {
  const { createDrover } = await import("../../src/drover.ts");
  const drover = createDrover({ redis: world.options.redisUrl, prefix: world.prefix });
  onTestFinished(() => drover.close());
  await judge({ ...world, drover });
}
