// Catches: a worker that does not come back by itself after Redis went away, loses what was committed, burns CPU or floods its log.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { startTestRedis, type TestRedis } from "../support/redis.ts";
import { textsOf } from "../support/transcript.ts";
import { makeWorld, resultsOf, runIdOf } from "../support/world.ts";
import { most, tellFigure } from "./support/figure.ts";
import { judge } from "./support/judge.ts";
import { observe } from "./support/process-facts.ts";
import { isLong, seeded } from "./support/seed.ts";

const runCount = isLong ? 30 : 20;
const turnCount = 8;
/** From the first answer of Redis on. */
const firstStepMs = 25_000;
const lockMs = 3_000;
const stalledMs = 1_000;
/** For all runs, as the case asks for it; the short form shares its cores with other tests. */
const allMostMs = (isLong ? 1 : 2) * (firstStepMs + lockMs + 2 * stalledMs);
/** A share of a core, and lines per second with a few to begin with. A short outage is mostly the moment of its beginning. */
const mostCpu = 0.1;
const firstLines = 10;

function respond(request: FakeRequest): FakeReply {
  const turn = turnOf(request.body);
  const text = `${turn} of ${runIdOf(request)}`;
  if (turn === turnCount) return { text, delayMs: 50 };
  const toolCalls = ["look", "put"].map((name) => ({ name, arguments: { note: `a${turn}`, takeMs: 20 } }));
  return { text, delayMs: 50, toolCalls };
}

type Outage = { outageMs: number; signal: "SIGTERM" | "SIGKILL"; redeliver?: boolean };

const short: Outage[] = [
  { outageMs: 0, signal: "SIGKILL", redeliver: true },
  { outageMs: 4_500, signal: "SIGKILL" },
  { outageMs: 1_000, signal: "SIGTERM" },
];
const long: Outage[] = [1_000, 7_000, 20_000, 120_000].flatMap((outageMs) => [
  { outageMs, signal: "SIGTERM" },
  { outageMs, signal: "SIGKILL" },
]);

async function end(server: TestRedis, signal: Outage["signal"]): Promise<void> {
  if (signal === "SIGKILL") await server.kill9();
  else await server.cli("SHUTDOWN").catch(() => {}); // it answers by closing the connection
}

test.each(isLong ? long : short)(
  "[Q13] [G1] [G2] [G8] workers outlive an outage of $outageMs ms after a $signal in the middle of many runs",
  async ({ outageMs, signal, redeliver = false }) => {
    const { seed } = seeded();
    // What is lost when it is killed is another matter: while the disk is slow, "everysec" acknowledges what is not written.
    const server = await startTestRedis({ args: ["--appendfsync", "always"] });
    try {
      const world = await makeWorld({ respond, redeliver, server });
      const workers = await Promise.all([world.work(), world.work()]);
      const ids = Array.from({ length: runCount }, (_, index) => `restart-${index}`);
      const runs = await Promise.all(ids.map((runId) => world.drover.start("e2e", `${runId} go`, { runId })));
      await world.server.received((runCount * turnCount) / 2 - 1);
      await end(server, signal);
      const atDeath = world.server.requests.length;
      const measured = observe(workers);
      await sleep(outageMs);
      const facts = measured();
      await server.restart();
      const backAt = Date.now();
      // Some requests were still on their way when Redis went.
      const next = await eventually(() => world.server.requests.find(({ at }) => at >= backAt), firstStepMs);
      const firstMs = next.at - backAt;
      expect(firstMs).toBeLessThan(firstStepMs);
      // A producer fails fast: the one of this test is given the time to come back.
      await eventually(() => world.drover.list({ limit: 1 }).catch(() => undefined));
      await resultsOf(runs, 2 * allMostMs);
      const allMs = Date.now() - backAt;
      expect(allMs).toBeLessThan(allMostMs);
      expect(atDeath).toBeLessThan(runCount * turnCount);
      for (const run of runs) {
        const texts = Array.from({ length: turnCount }, (_, index) => `${index + 1} of ${run.id}`);
        expect(textsOf(await run.transcript())).toEqual(texts);
      }
      for (const { cpuShare, logLines, seconds } of facts) {
        expect(logLines).toBeLessThan(firstLines + seconds);
        if (outageMs >= 7_000) expect(cpuShare).toBeLessThan(mostCpu);
      }
      await judge(world, { seed });
      const cpu = Math.max(...facts.map(({ cpuShare }) => 100 * cpuShare)).toFixed(1);
      tellFigure(
        `Q13 ${signal}, ${outageMs} ms`,
        `first step ${firstMs} ms after Redis was back, all ${runCount} runs after ${allMs} ms; meanwhile a worker took at ` +
          `most ${cpu} % of a core and wrote ${most(facts.map(({ logLines }) => logLines))} lines`,
      );
    } finally {
      await server.stop();
    }
  },
);
