// Catches: delays that are shortened or lengthened because a producer's or a worker's clock is wrong, or is set while a
// run goes on; and a machine whose clock is wrong without anybody being told.
import { describe, expect, test, vi } from "vitest";
import { createDrover } from "../../src/drover.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { type FakeAnswer, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { makeWorld, readFeed, resultsOf, runIdOf, type World } from "../support/world.ts";
import { judge } from "./support/judge.ts";
import { isLong } from "./support/seed.ts";

const hour = 3_600_000;
const tenMinutes = 600_000;
/** How far a delay may be off. */
const toleranceMs = 10_000;
const delayMs = 2_000;
const retryAfterMs = 2_000;
const refusedRun = "clock-0";
const runCount = isLong ? 30 : 3;
const turnCount = 3;

/** The second request of the first run is refused for two seconds; each turn but the last calls a tool. */
function respondTo(refused: Set<string>): (request: FakeRequest) => FakeAnswer {
  return (request) => {
    const runId = runIdOf(request);
    const turn = turnOf(request.body);
    if (turn === 2 && runId === refusedRun && !refused.has(runId)) {
      refused.add(runId);
      return {
        status: 503,
        headers: { "retry-after": String(retryAfterMs / 1_000) },
        body: { error: { message: "busy" } },
      };
    }
    if (turn === turnCount) return `${turn} of ${runId}`;
    return { text: `${turn} of ${runId}`, toolCalls: [{ name: "put", arguments: { note: `a${turn}`, takeMs: 300 } }] };
  };
}

type Clock = NonNullable<World["options"]["clock"]>;

/** Runs are started by a producer whose clock is off by so much, to begin after a delay. */
async function startSkewed(world: World, skewMs: number): Promise<{ ids: string[]; startedAt: number }> {
  const { redisUrl: redis, prefix } = world.options;
  const now = Date.now.bind(Date);
  vi.spyOn(Date, "now").mockImplementation(() => now() + skewMs);
  try {
    const drover = createDrover({ redis, prefix, logger: createSilentLogger() });
    const ids = Array.from({ length: runCount }, (_, index) => `clock-${index}`);
    const startedAt = now();
    await Promise.all(ids.map((runId) => drover.start("e2e", `${runId} go`, { runId, delayMs })));
    await drover.close();
    return { ids, startedAt };
  } finally {
    vi.restoreAllMocks();
  }
}

/** When the model server was asked, by run. */
function askedAt(world: World): Map<string, number[]> {
  const requests = world.server.requests.map((request) => ({ runId: runIdOf(request), at: request.at }));
  const byRun = Map.groupBy(requests, ({ runId }) => runId);
  return new Map([...byRun].map(([runId, all]) => [runId, all.map(({ at }) => at)]));
}

function expectTimes(world: World, ids: string[], startedAt: number): void {
  const asked = askedAt(world);
  for (const runId of ids) {
    const [first = 0, refused = 0, again = 0] = asked.get(runId) ?? [];
    expect(first - startedAt).toBeGreaterThan(delayMs - 200);
    expect(first - startedAt).toBeLessThan(delayMs + toleranceMs);
    // One request a turn and the one that was refused: nothing skipped, nothing doubled.
    expect(asked.get(runId)?.length).toBe(turnCount + (runId === refusedRun ? 1 : 0));
    if (runId !== refusedRun) continue;
    expect(again - refused).toBeGreaterThan(retryAfterMs - 200);
    expect(again - refused).toBeLessThan(retryAfterMs + toleranceMs);
  }
}

type Case = { title: string; producerSkewMs?: number; clocks: Clock[]; alwaysTried?: boolean };

const cases: Case[] = [
  {
    title: "a producer an hour ahead, workers right and an hour behind",
    producerSkewMs: hour,
    clocks: [{}, { skewMs: -hour }],
    alwaysTried: true,
  },
  {
    title: "a producer an hour behind, workers right and an hour ahead",
    producerSkewMs: -hour,
    clocks: [{}, { skewMs: hour }],
  },
  { title: "all workers an hour ahead", clocks: [{ skewMs: hour }, { skewMs: hour }] },
  { title: "a worker's clock set ten minutes on in mid-run", clocks: [{ jumpMs: tenMinutes, jumpAfterMs: 4_000 }] },
  {
    title: "a worker's clock set ten minutes back in mid-run",
    clocks: [{ jumpMs: -tenMinutes, jumpAfterMs: 4_000 }],
    alwaysTried: true,
  },
];

describe("clocks that are wrong", () => {
  test.each(isLong ? cases : cases.filter(({ alwaysTried }) => alwaysTried))(
    "[Q31] no delay is off, and no step skipped or doubled: $title",
    async ({ producerSkewMs = 0, clocks }) => {
      const world = await makeWorld({ respond: respondTo(new Set()) });
      const workers = await Promise.all(clocks.map((clock) => world.work({ clock })));
      const { ids, startedAt } = await startSkewed(world, producerSkewMs);
      const results = await resultsOf(
        ids.map((runId) => world.drover.get(runId)),
        60_000,
      );
      expect(results.every(({ status }) => status === "completed")).toBe(true);
      expectTimes(world, ids, startedAt);
      // What is stored is Redis's time.
      for (const runId of ids) {
        const events = (await readFeed(world, runId)).filter((event) => "at" in event);
        for (const { at } of events as { at: number }[]) {
          expect(at).toBeGreaterThan(startedAt - toleranceMs);
          expect(at).toBeLessThan(Date.now() + toleranceMs);
        }
      }
      for (const [index, { skewMs = 0 }] of clocks.entries()) {
        const said = workers[index]?.logLines().filter((line) => line.includes("This machine's clock is 3600 s"));
        expect(said?.length).toBe(skewMs === 0 ? 0 : 1);
      }
      await judge(world);
    },
  );

  test("[Q31] a deadline and an approval's expiry hold although the workers' clocks are an hour off", async () => {
    const respond = ({ body }: FakeRequest): FakeAnswer =>
      turnOf(body) === 1 ? { toolCalls: [{ name: "offer", arguments: { note: "a" } }] } : "done";
    const world = await makeWorld({ respond, approvalExpiresMs: 3_000 });
    await Promise.all([world.work({ clock: { skewMs: hour } }), world.work({ clock: { skewMs: -hour } })]);
    const startedAt = Date.now();
    const options = { runId: "deadline-1", delayMs: 600_000, limits: { deadlineMs: 4_000 } };
    const late = await world.drover.start("e2e", "late go", options);
    const asking = await world.drover.start("e2e", "asking go", { runId: "asking-1" });
    expect(await asking.result({ timeoutMs: 30_000 })).toMatchObject({ status: "completed" });
    const askedMs = Date.now() - startedAt;
    expect(askedMs).toBeGreaterThan(2_900);
    expect(askedMs).toBeLessThan(3_000 + toleranceMs);
    expect(await late.result({ timeoutMs: 30_000 })).toMatchObject({ stopReason: "deadline" });
    const endedMs = Date.now() - startedAt;
    expect(endedMs).toBeGreaterThan(3_900);
    expect(endedMs).toBeLessThan(4_000 + toleranceMs);
  });
});
