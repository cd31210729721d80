// Catches: a session that two runs speak in at once, that forgets, repeats or reorders what was said, or that stands still
// after its worker died. The judge is the model's server: what it was asked, when, and what each request held.
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { Message } from "../../src/core/message.ts";
import { eventually } from "../support/eventually.ts";
import { type FakeReply, type FakeRequest } from "../support/fake-openai.ts";
import { problemsOf } from "../support/transcript.ts";
import type { WorkerProcess } from "../support/worker-process.ts";
import { makeWorld, resultsOf, type World } from "../support/world.ts";

const sessionCount = 20;
const runsEach = 5;
const workerCount = 3;
const killCount = 10;
const thinkMs = 40;

/** The run that a request is for: of the last input in it, `<run id> go`. */
function runOf({ body }: FakeRequest): { runId: string; turn: number } {
  const said = body.messages.findLastIndex(({ role }) => role === "user");
  const runId = String(body.messages[said]?.content).split(" ")[0] ?? "";
  const turn = body.messages.slice(said).filter(({ role }) => role === "assistant").length + 1;
  return { runId, turn };
}

/** Two tool calls, then an answer. */
function respond(request: FakeRequest): FakeReply {
  const { runId, turn } = runOf(request);
  const text = `turn ${turn} of ${runId}`;
  if (turn === 2) return { text, delayMs: thinkMs };
  const toolCalls = ["look", "put"].map((name) => ({ name, arguments: { note: `${runId}-${turn}`, takeMs: 20 } }));
  return { text, toolCalls, delayMs: thinkMs };
}

/** What one run adds to the transcript, in words. */
function partOf(runId: string): string[] {
  const note = `${runId}-1`;
  return [`${runId} go`, `turn 1 of ${runId}`, `look: ${note}`, `put: ${note}`, `turn 2 of ${runId}`];
}

const wordsOf = (messages: readonly { role: string; content?: unknown }[]): string[] =>
  messages.filter(({ role }) => role !== "system" && role !== "developer").map(({ content }) => String(content));

/** Kills one worker after the other at random moments, replacing each at once. */
async function killAtRandom(world: World, workers: WorkerProcess[], killed: () => void): Promise<void> {
  for (let kill = 0; kill < killCount; kill += 1) {
    await sleep(100 + Math.random() * 500);
    const at = Math.floor(Math.random() * workerCount);
    workers[at]?.kill9();
    killed();
    workers[at] = await world.work();
  }
}

/**
 * A model that gives a session's k-th run (from 0) its answer once 2k kills were done, however fast the machine is: they
 * meet conversations that go on.
 */
function respondAsKilled(): { answer(request: FakeRequest): Promise<FakeReply>; killed(): void; kills(): number } {
  const kills = Array.from({ length: killCount }, () => Promise.withResolvers<void>());
  let count = 0;
  return {
    async answer(request) {
      const { runId, turn } = runOf(request);
      const run = Number(runId.split(".r")[1]);
      if (turn === 2) await kills[2 * run - 1]?.promise;
      return respond(request);
    },
    killed() {
      kills[count]?.resolve();
      count += 1;
    },
    kills: () => count,
  };
}

/** Every request held exactly what had been said in the session before, and none came while another run was active. */
function expectOneAtATime(requests: readonly FakeRequest[], sessionRuns: string[]): void {
  const order: string[] = [];
  for (const request of requests) {
    const { runId, turn } = runOf(request);
    if (!sessionRuns.includes(runId)) continue;
    if (order.at(-1) !== runId) order.push(runId);
    const before = sessionRuns.slice(0, sessionRuns.indexOf(runId)).flatMap(partOf);
    expect(wordsOf(request.body.messages)).toEqual([...before, ...partOf(runId).slice(0, turn === 1 ? 1 : 4)]);
  }
  expect(order).toEqual(sessionRuns);
}

test("[D1] [G1] [G2] [G3] 20 sessions of 5 runs survive 10 kills: one at a time, in order, nothing lost", async () => {
  const { answer, killed, kills } = respondAsKilled();
  const world = await makeWorld({ respond: answer, toolTimeoutMs: 1_000 });
  const workers = await Promise.all(Array.from({ length: workerCount }, () => world.work()));
  const sessions = Array.from({ length: sessionCount }, (_, index) => ({
    id: `talk-${index}`,
    runIds: Array.from({ length: runsEach }, (_run, at) => `s${index}.r${at}`),
  }));
  const startedAt = Date.now();
  const killing = killAtRandom(world, workers, killed);
  const runs = await Promise.all(
    sessions.map(async ({ id, runIds }) => {
      const handles = [];
      for (const runId of runIds) handles.push(await world.drover.session(id).send("e2e", `${runId} go`, { runId }));
      return handles;
    }),
  );
  const results = await resultsOf(runs.flat(), 90_000);
  const endedAt = Date.now();
  const met = kills();
  await killing;
  expect(met).toBeGreaterThanOrEqual(5);
  expect(results.map(({ status, output }) => [status, output])).toEqual(
    sessions.flatMap(({ runIds }) => runIds.map((runId) => ["completed", `turn 2 of ${runId}`])),
  );
  for (const { id, runIds } of sessions) {
    const transcript: Message[] = await world.drover.session(id).transcript();
    expect(problemsOf(transcript)).toEqual([]);
    expect(wordsOf(transcript)).toEqual(runIds.flatMap(partOf));
    expectOneAtATime(world.server.requests, runIds);
    for (const runId of runIds) expect(wordsOf(await world.drover.get(runId).transcript())).toEqual(partOf(runId));
  }
  const keys = sessions.flatMap(({ runIds }) => runIds.map((runId) => `${runId}:call-1-2`));
  expect(world.ledger.effects()).toEqual(keys.sort());
  const nothingOwed = async (): Promise<true | undefined> =>
    (await world.redis.zcard(world.keys.owing)) === 0 ? true : undefined;
  await eventually(nothingOwed);
  process.stdout.write(
    `sessions: ${runs.flat().length} runs of ${sessionCount} sessions in ${endedAt - startedAt} ms, ${met} kills\n`,
  );
});

describe("a conversation", () => {
  test("[G2] goes on over two deploys, its inputs waiting while no worker is there", async () => {
    const world = await makeWorld({ respond });
    const talk = world.drover.session("deploys");
    const first = await world.work();
    await (await talk.send("e2e", "r1 go", { runId: "r1" })).result({ timeoutMs: 20_000 });
    first.terminate();
    await first.exit;
    await talk.send("e2e", "r2 go", { runId: "r2" });
    await talk.send("e2e", "r3 go", { runId: "r3" });
    const { active, queued } = await talk.runs();
    expect([active?.runId, ...queued.map(({ runId }) => runId)]).toEqual(["r2", "r3"]);
    const second = await world.work();
    await world.drover.get("r3").result({ timeoutMs: 20_000 });
    second.terminate();
    await second.exit;
    await talk.send("e2e", "r4 go", { runId: "r4" });
    await world.work();
    await world.drover.get("r4").result({ timeoutMs: 20_000 });
    expect(wordsOf(await talk.transcript())).toEqual(["r1", "r2", "r3", "r4"].flatMap(partOf));
    expectOneAtATime(world.server.requests, ["r1", "r2", "r3", "r4"]);
  });

  test("[G7] is had by a producer that knows nothing of us but BullMQ, also by interrupting", async () => {
    const world = await makeWorld({
      respond: (request) => (runOf(request).runId === "r2" ? { text: "answer to r2" } : respond(request)),
    });
    await world.work();
    const queue = world.plainQueue("runs");
    await queue.add("start", { agent: "e2e", input: "r1 go", session: "s" }, { jobId: "r1" });
    await world.server.received(0);
    const data = { agent: "e2e", input: "r2 go", session: "s", whenBusy: "inject" };
    await queue.add("start", data, { jobId: "r2" });
    await world.server.received(1);
    const run = world.drover.get("r1");
    expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed" });
    const transcript = await world.drover.session("s").transcript();
    expect(wordsOf(transcript).filter((text) => text === "r2 go")).toHaveLength(1);
    // The same again: nothing is given or started twice.
    await queue.add("start", data, { jobId: "r2" });
    await eventually(async () => ((await queue.getJobCounts("waiting", "active")).waiting === 0 ? true : undefined));
    await queue.add("start", { agent: "e2e", input: "r3 go", session: "s" }, { jobId: "r3" });
    const last = await eventually(async () => {
      const handle = world.drover.get("r3");
      return (await handle.status().catch(() => undefined)) && handle;
    });
    await last.result({ timeoutMs: 20_000 });
    expect(wordsOf(await world.drover.session("s").transcript())).toEqual([...wordsOf(transcript), ...partOf("r3")]);
  });
});
