// Catches: an irreversible act without a person's word or twice after it, and a wait that holds something in a process.
import { describe, expect, test } from "vitest";
import type { RunHandle } from "../../src/engine/run-handle.ts";
import type { RunView } from "../../src/engine/run-view.ts";
import { eventually } from "../support/eventually.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { problemsOf } from "../support/transcript.ts";
import { jobsAre, makeWorld, type World } from "../support/world.ts";

const calling =
  (name: string) =>
  ({ body }: FakeRequest): FakeReply =>
    turnOf(body) === 1 ? { text: "first", toolCalls: [{ name, arguments: { note: "a" } }] } : { text: "settled" };

function waiting(run: RunHandle): Promise<RunView> {
  return eventually(async () => {
    const view = await run.status();
    return view.status === "waiting" ? view : undefined;
  });
}

/** What the model was told of the call, in the last request. */
function told(world: World): string {
  return String(world.server.requests.at(-1)?.body.messages.at(-1)?.content);
}

describe.each([
  ["as they come", false],
  ["with every step redelivered", true],
])("an irreversible tool, steps %s", (_title, redeliver) => {
  test("[G4] [G5] waits for a person's word through a restart of all workers, then runs once", async () => {
    const world = await makeWorld({ redeliver, respond: calling("pay") });
    const worker = await world.work();
    const run = await world.drover.start("e2e", "go", { runId: "approve-1" });
    const view = await waiting(run);
    expect(view.openCalls).toMatchObject([{ tool: "pay", state: "approval" }]);
    // Nothing is queued, delayed or held for it.
    await jobsAre(world, { active: 0, delayed: 0, waiting: 0 });
    worker.kill9();
    await worker.exit;
    const callId = view.openCalls[0]?.callId ?? "";
    await run.approve(callId, { by: "ann" }); // while there is no worker at all
    expect(world.ledger.entries()).toEqual([]);
    await world.work();
    expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed", output: "settled" });
    expect(world.ledger.entries().map(({ key }) => key)).toEqual(["approve-1:call-1-1"]);
    expect(problemsOf(await run.transcript())).toEqual([]);
    await expect(run.approve(callId)).rejects.toMatchObject({ code: "not_allowed" });
  });

  test("[G4] does not run when denied, and the model reads why", async () => {
    const world = await makeWorld({ redeliver, respond: calling("pay") });
    await world.work();
    const run = await world.drover.start("e2e", "go", { runId: "deny-1" });
    const { openCalls } = await waiting(run);
    await run.deny(openCalls[0]?.callId ?? "", { by: "bob", reason: "over budget" });
    expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed", turns: 2 });
    expect(told(world)).toMatch(/bob.*over budget/);
    expect(world.ledger.entries()).toEqual([]);
  });

  test("[G4] [G5] does not run when nobody approves in time", async () => {
    const world = await makeWorld({ redeliver, respond: calling("offer"), approvalExpiresMs: 1_500 });
    await world.work();
    const run = await world.drover.start("e2e", "go", { runId: "expire-1" });
    await waiting(run);
    expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed", turns: 2 });
    expect(told(world)).toMatch(/nobody approved/);
    expect(world.ledger.entries()).toEqual([]);
  });
});

test("a wait has one delayed job, also when the run was changed by another process in the meantime", async () => {
  const answer = Promise.withResolvers<void>();
  const world = await makeWorld({
    approvalExpiresMs: 3_600_000,
    respond: async (request) => {
      await answer.promise;
      return calling("offer")(request);
    },
  });
  await world.work();
  const run = await world.drover.start("e2e", "go", { runId: "raced-1" });
  await world.server.received(0);
  await run.send("one more thing"); // the worker's commit of the answer will meet another revision
  answer.resolve();
  expect((await waiting(run)).openCalls).toMatchObject([{ tool: "offer", state: "approval" }]);
  await jobsAre(world, { active: 0, delayed: 1, waiting: 0 }, 3_000);
});
