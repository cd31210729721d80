// Catches: one answer of a model that Redis takes in no attempt: its run is never over, the model is asked without end, and whatever
// shares the connection waits with it.
import { expect, onTestFinished, test } from "vitest";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { startTestRedis } from "../support/redis.ts";
import { makeWorld, resultsOf, runIdOf } from "../support/world.ts";
import { judge } from "./support/judge.ts";
import { seeded } from "./support/seed.ts";

const turnCount = 4;

function respond(request: FakeRequest): FakeReply {
  const turn = turnOf(request.body);
  if (runIdOf(request) === "huge" && turn === 2) return { text: "x".repeat(1_500_000) };
  if (turn === turnCount) return { text: "end" };
  return { text: `turn ${turn}`, toolCalls: ["put", "post"].map((name) => ({ name, arguments: { note: `${turn}` } })) };
}

test.each([
  ["says so", "--proto-max-bulk-len", "1048576"],
  ["cuts the connection", "--client-query-buffer-limit", "1mb"],
])(
  "[Q24] an answer that is too large for a Redis which %s fails its run once, with the reason, and all others complete",
  async (_what, ...args) => {
    const { seed } = seeded();
    const server = await startTestRedis({ args });
    onTestFinished(() => server.stop());
    const world = await makeWorld({ respond, server });
    await Promise.all([world.work(), world.work()]);
    const ids = ["huge", ...Array.from({ length: 8 }, (_, index) => `beside-${index}`)];
    const runs = await Promise.all(ids.map((runId) => world.drover.start("e2e", `${runId} go`, { runId })));
    const [huge, ...others] = await resultsOf(runs, 30_000);
    expect(huge).toMatchObject({ status: "failed", error: { code: "too_large" } });
    expect(huge?.error?.message).toContain("maxMessageBytes");
    expect(others.map(({ status, turns }) => `${status} ${turns}`)).toEqual(others.map(() => `completed ${turnCount}`));
    // Two turns; the second one's lock may be lost while the connection is cut again and again.
    expect(world.server.requests.filter((request) => runIdOf(request) === "huge").length).toBeLessThan(5);
    await judge(world, { seed, statuses: ["completed", "failed"] });
  },
);
