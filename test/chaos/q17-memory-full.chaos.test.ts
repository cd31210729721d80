// Catches: runs that die, or a log that is flooded, because Redis was out of memory for some seconds.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { startTestRedis } from "../support/redis.ts";
import { makeWorld, resultsOf } from "../support/world.ts";
import { most, tellFigure } from "./support/figure.ts";
import { judge } from "./support/judge.ts";
import { observe } from "./support/process-facts.ts";
import { isLong, seeded } from "./support/seed.ts";

const runCount = 20;
const turnCount = 6;
const fullMs = isLong ? 15_000 : 4_000;
const firstLines = 8;

function respond({ body }: FakeRequest): FakeReply {
  const turn = turnOf(body);
  if (turn === turnCount) return { text: "done" };
  const toolCalls = ["put", "post"].map((name) => ({ name, arguments: { note: `${name} ${turn}` } }));
  return { text: `turn ${turn}`, toolCalls, delayMs: 50 };
}

test("[Q17] a Redis whose memory is full for a while fails no run: steps wait, starts are refused, the log stays small", async () => {
  const { seed } = seeded();
  const server = await startTestRedis({ own: true });
  onTestFinished(() => server.stop());
  const world = await makeWorld({ respond, server, toolTimeoutMs: 60_000 });
  const workers = [await world.work(), await world.work()];
  const ids = Array.from({ length: runCount }, (_, index) => `full-${index}`);
  const runs = await Promise.all(ids.map((runId) => world.drover.start("e2e", `${runId} go`, { runId })));
  await world.server.received((runCount * turnCount) / 3);
  await server.cli("CONFIG", "SET", "maxmemory", "1");
  const measured = observe(workers);
  const starting = world.drover.start("e2e", "too-much go", { runId: "too-much" });
  await expect(starting).rejects.toMatchObject({
    code: "queue_unavailable",
    message: expect.stringMatching(/memory/i),
  });
  await sleep(fullMs);
  const facts = measured();
  for (const { logLines, seconds } of facts) expect(logLines).toBeLessThan(firstLines + seconds);
  await server.cli("CONFIG", "SET", "maxmemory", "0");
  const results = await resultsOf(runs, 60_000);
  expect(results.map(({ status, turns }) => `${status} ${turns}`)).toEqual(ids.map(() => `completed ${turnCount}`));
  const late = await eventually(() => world.drover.start("e2e", "late go", { runId: "late" }).catch(() => undefined));
  expect(await late.result({ timeoutMs: 30_000 })).toMatchObject({ status: "completed" });
  await judge(world, { seed });
  const lines = most(facts.map(({ logLines }) => logLines));
  tellFigure(
    "Q17",
    `in ${fullMs} ms without memory no run of ${runCount} failed, and a worker wrote at most ${lines} lines`,
  );
});
