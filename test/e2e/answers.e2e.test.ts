// Catches: a call of a caller's tool that is lost with a worker, executed by one, or answered twice.
import { expect, test } from "vitest";
import type { RunView } from "../../src/engine/run-view.ts";
import { eventually } from "../support/eventually.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { problemsOf } from "../support/transcript.ts";
import { jobsAre, makeWorld } from "../support/world.ts";

const book = {
  name: "book",
  description: "Books seats.",
  parameters: { type: "object", properties: { seats: { type: "integer" } }, required: ["seats"] },
};

function respond({ body }: FakeRequest): FakeReply {
  if (turnOf(body) > 1) return { text: "booked" };
  const toolCalls = [
    { name: "book", arguments: { seats: 2 } },
    { name: "look", arguments: { note: "a" } },
  ];
  return { toolCalls };
}

test.each([
  ["as they come", false],
  ["with every step redelivered", true],
])(
  "[G5] a call of the caller's tool waits through a restart of all workers, and its result is taken once, steps %s",
  async (_title, redeliver) => {
    const world = await makeWorld({ redeliver, respond });
    const worker = await world.work();
    const run = await world.drover.start("e2e", "go", { runId: "answer-1", tools: [book] });
    const view = await eventually(async (): Promise<RunView | undefined> => {
      const found = await run.status();
      return found.status === "waiting" ? found : undefined;
    });
    expect(view).toMatchObject({ waitingFor: "the result of a call by its caller", openCalls: [{ from: "caller" }] });
    expect(world.server.requests[0]?.body.tools).toContainEqual({ type: "function", function: book });
    // Nothing is queued, delayed or held for it.
    await jobsAre(world, { active: 0, delayed: 0, waiting: 0 });
    worker.kill9();
    await worker.exit;
    const callId = view.openCalls[0]?.callId ?? "";
    // While there is no worker at all, and sent twice as after a lost reply.
    const given = { by: "app", decisionId: "d1" };
    await Promise.all([run.answer(callId, { seats: ["1a"] }, given), run.answer(callId, { seats: ["1a"] }, given)]);
    await world.work();
    expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed", output: "booked" });
    const transcript = await run.transcript();
    expect(problemsOf(transcript)).toEqual([]);
    expect(transcript.find((message) => message.role === "tool")).toMatchObject({
      name: "book",
      content: '{"seats":["1a"]}',
      answered: { by: "app", id: "d1" },
    });
    const told = world.server.requests.at(-1)?.body.messages.filter(({ role }) => role === "tool");
    expect(told).toMatchObject([{ content: '{"seats":["1a"]}' }, {}]);
  },
);
