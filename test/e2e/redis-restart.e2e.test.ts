// Catches: a worker that does not come back by itself after Redis was killed, loses what was committed, or floods its log.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { startTestRedis } from "../support/redis.ts";
import { problemsOf, textsOf } from "../support/transcript.ts";
import { makeWorld, resultsOf, runIdOf } from "../support/world.ts";

const runCount = 20;
const turnCount = 8;
const logLinesAllowed = 60;

function respond(request: FakeRequest): FakeReply {
  const turn = turnOf(request.body);
  const text = `${turn} of ${runIdOf(request)}`;
  if (turn === turnCount) return { text, delayMs: 50 };
  return {
    text,
    delayMs: 50,
    toolCalls: ["look", "put"].map((name) => ({ name, arguments: { note: `a${turn}`, takeMs: 20 } })),
  };
}

test.each([
  ["back at once, steps as they come", 0, false],
  ["back at once, every step redelivered", 0, true],
  ["away for longer than a lock holds", 4_000, false],
])(
  "[G1] [G2] [G8] workers outlive a kill -9 of Redis in the middle of 20 runs: %s",
  async (_title, outageMs, redeliver) => {
    const server = await startTestRedis({ own: true });
    try {
      const world = await makeWorld({ respond, redeliver, server });
      const workers = await Promise.all([world.work(), world.work()]);
      const ids = Array.from({ length: runCount }, (_, index) => `restart-${index}`);
      const runs = await Promise.all(ids.map((runId) => world.drover.start("e2e", `${runId} go`, { runId })));
      const requests = (runCount * turnCount) / 2;
      await world.server.received(requests - 1);
      await server.kill9();
      const atDeath = world.server.requests.length;
      await sleep(outageMs);
      await server.restart();
      // A producer fails fast: the one of this test is given the time to come back.
      await eventually(() => world.drover.list({ limit: 1 }).catch(() => undefined));
      const results = await resultsOf(runs, 60_000);
      expect(results.map(({ status }) => status)).toEqual(ids.map(() => "completed"));
      expect(atDeath).toBeLessThan(runCount * turnCount);
      for (const run of runs) {
        const transcript = await run.transcript();
        expect(problemsOf(transcript)).toEqual([]);
        const texts = Array.from({ length: turnCount }, (_, index) => `${index + 1} of ${run.id}`);
        expect(textsOf(transcript)).toEqual(texts);
        expect(transcript.filter((message) => message.role === "tool" && message.outcome !== "ok")).toEqual([]);
      }
      const puts = ids.flatMap((runId) =>
        Array.from({ length: turnCount - 1 }, (_, index) => `${runId}:call-${index + 1}-2`),
      );
      expect(world.ledger.effects()).toEqual(puts.sort());
      for (const worker of workers) {
        expect(worker.exited()).toBe(false);
        expect(worker.logLines().length).toBeLessThan(logLinesAllowed);
      }
    } finally {
      await server.stop();
    }
  },
);
