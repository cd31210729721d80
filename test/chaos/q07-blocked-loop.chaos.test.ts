// Catches: a worker whose event loop is blocked, that loses its lock and then spoils what another does in its place.
import { expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { makeWorld, resultsOf, runIdOf } from "../support/world.ts";
import { judge } from "./support/judge.ts";
import { isLong, seeded } from "./support/seed.ts";

test.each(["look", "post"])(
  "[Q07] a tool that blocks its worker, %s: one result counts, and the worker is free again",
  async (name) => {
    const { seed } = seeded();
    const world = await makeWorld({
      concurrency: 1,
      toolTimeoutMs: 60_000,
      respond: (request): FakeReply => {
        if (turnOf(request.body) > 1) return { text: "done" };
        const block = runIdOf(request) === "blocked";
        return { toolCalls: [{ name, arguments: { note: runIdOf(request), block } }] };
      },
    });
    const blocked = await world.work();
    const run = await world.drover.start("e2e", "blocked go", { runId: "blocked" });
    await eventually(() => world.ledger.entries()[0]);
    const other = await world.work();
    // The other has the step by now: it makes a read again, and finds of anything else that it was begun.
    await eventually(async () => {
      const { openCalls } = await run.status();
      return world.ledger.entries().length > 1 || openCalls[0]?.state === "lost" ? true : undefined;
    }, 30_000);
    world.ledger.unblock();
    expect(await run.result({ timeoutMs: 30_000 })).toMatchObject({ status: "completed", output: "done" });
    expect(world.ledger.entries().length).toBe(name === "post" ? 1 : 2);
    const results = (await run.transcript()).flatMap((message) => (message.role === "tool" ? [message.outcome] : []));
    expect(results).toEqual(["ok"]);

    // Its only slot is free: alone, it takes the next step.
    other.kill9();
    await other.exit;
    const next = await world.drover.start("e2e", "next go", { runId: "next" });
    expect(await next.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed" });
    expect(world.ledger.entries().at(-1)).toMatchObject({ runId: "next", pid: blocked.pid });
    // Which of two notices first, its timer or the end of its step, is chance: one line either way.
    const lines = blocked.logLines().filter((line) => /lost the lock of a step|after its lock was lost/.test(line));
    expect(lines).toEqual([expect.stringContaining("blocked")]);
    await judge(world, { seed });
  },
);

test("[Q07] many steps at once that each read much JSON all end", async () => {
  const { seed } = seeded();
  const [runCount, bytes] = isLong ? [100, 20_000_000] : [30, 4_000_000];
  const world = await makeWorld({
    respond: ({ body }: FakeRequest): FakeReply =>
      turnOf(body) > 1 ? { text: "done" } : { toolCalls: [{ name: "parse", arguments: { note: "a", bytes } }] },
  });
  await Promise.all([world.work(), world.work()]);
  const ids = Array.from({ length: runCount }, (_, index) => `parse-${index}`);
  const runs = await Promise.all(ids.map((runId) => world.drover.start("e2e", `${runId} go`, { runId })));
  await resultsOf(runs, isLong ? 300_000 : 60_000);
  await judge(world, { seed });
});
