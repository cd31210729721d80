// Catches: a fleet that goes on calling a provider that asked to be left alone, that gives up runs because of it, or that
// holds up those of other models.
import { expect, test } from "vitest";
import type { RunHandle } from "../../src/engine/run-handle.ts";
import { type FakeAnswer, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { makeWorld, readFeed, resultsOf, runIdOf } from "../support/world.ts";
import { most, tellFigure } from "./support/figure.ts";
import { startFleet } from "./support/fleet.ts";
import { judge } from "./support/judge.ts";
import { isLong } from "./support/seed.ts";

const retryAfterMs = 2_000;
const refusingMs = isLong ? 10_000 : 5_000;
const runCount = isLong ? 20 : 10;
const turnCount = 4;
/** Docs, harness.md: no later than this does any worker call a model that asked for a pause, but for calls on their way. */
const heardWithinMs = 1_000;

test("[Q28] a model that answers 429 is left alone by the whole fleet, its runs use up no attempt, and other models' go on", async () => {
  let firstRefusedAt = 0;
  let lastRefusedAt = 0;
  const refused: number[] = [];
  const refusals = new Set<number>();
  function respond(request: FakeRequest): FakeAnswer {
    const turn = turnOf(request.body);
    const now = Date.now();
    if (request.body.model === "a" && turn === 2) {
      firstRefusedAt ||= now;
      if (now < firstRefusedAt + refusingMs) {
        refused.push(now);
        refusals.add(request.index);
        lastRefusedAt = now;
        const headers = { "retry-after": String(retryAfterMs / 1_000) };
        return { status: 429, headers, body: { error: { message: "slow down" } } };
      }
    }
    const text = `${turn} of ${runIdOf(request)}`;
    if (turn === turnCount) return { text, delayMs: 50 };
    return { text, delayMs: 50, toolCalls: [{ name: "look", arguments: { note: `${turn}` } }] };
  }
  const world = await makeWorld({ respond, agents: ["a", "b"], ownModels: true });
  await startFleet(world, 3);
  const ids = (agent: string): string[] => Array.from({ length: runCount }, (_, index) => `${agent}-${index}`);
  const start = (agent: string): Promise<RunHandle[]> =>
    Promise.all(ids(agent).map((runId) => world.drover.start(agent, `${runId} go`, { runId })));
  const [ofA, ofB] = await Promise.all([start("a"), start("b")]);
  await resultsOf(ofB, 60_000);
  await resultsOf(ofA, 60_000);

  const holds = async (run: RunHandle): Promise<number> =>
    (await readFeed(world, run.id)).filter(({ type }) => type === "step_held").length;
  expect(await Promise.all(ofB.map(holds))).toEqual(ofB.map(() => 0));
  // All are completed though the pauses are more than the attempts that the agent allows (4): none was used up.
  await judge(world, { usage: "exact", tokensOf: ({ index }) => (refusals.has(index) ? 0 : 15) });
  // Each pause: some calls in a second, then silence until it is over.
  const rounds: number[][] = [];
  for (const at of refused) {
    const round = rounds.at(-1);
    if (round?.[0] !== undefined && at - round[0] < retryAfterMs - 300) round.push(at);
    else rounds.push([at]);
  }
  for (const round of rounds) {
    expect((round.at(-1) ?? 0) - (round[0] ?? 0)).toBeLessThan(heardWithinMs);
    expect(round.length).toBeLessThanOrEqual(runCount);
  }
  expect(rounds.length).toBeGreaterThanOrEqual(2);
  expect(rounds.length).toBeLessThanOrEqual(Math.ceil(refusingMs / retryAfterMs) + 1);
  const calls = world.server.requests.filter(({ body }) => body.model === "a").length;
  expect(calls).toBeLessThanOrEqual(runCount * (turnCount + rounds.length));
  expect(lastRefusedAt - firstRefusedAt).toBeGreaterThan(retryAfterMs);
  const spread = most(rounds.map((round) => (round.at(-1) ?? 0) - (round[0] ?? 0)));
  tellFigure(
    "Q28",
    `${refused.length} refusals in ${rounds.length} rounds, the last of one at most ${spread} ms after its first; ` +
      `${calls} calls for ${runCount} runs of ${turnCount} turns`,
  );
});
