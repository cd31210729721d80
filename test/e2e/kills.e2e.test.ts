// Catches: a run that is lost, stuck or doubled when processes die at any moment. Nothing is simulated: workers are
// killed without warning, once a second, until everything is done, for 40 s at most: where workers take longer to start
// than they live, nothing ever would be.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Message } from "../../src/core/message.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { problemsOf, textsOf } from "../support/transcript.ts";
import type { WorkerProcess } from "../support/worker-process.ts";
import { makeWorld, resultsOf, runIdOf, type World } from "../support/world.ts";

const runCount = 50;
const turnCount = 10;
const workerCount = 3;
const killEveryMs = 1_000;
const killForMs = 40_000;

const textOfTurn = (runId: string, turn: number): string => `turn ${turn} of ${runId}`;

/** Three parallel calls in odd turns, one call in even ones; the last turn answers. */
function respond(request: FakeRequest): FakeReply {
  const turn = turnOf(request.body);
  const text = textOfTurn(runIdOf(request), turn);
  if (turn === turnCount) return { text, delayMs: 60 };
  const names = turn % 2 === 1 ? ["look", "put", "post"] : [["put", "post", "look"][(turn / 2) % 3] as string];
  const toolCalls = names.map((name) => ({ name, arguments: { note: `${name}-${turn}`, takeMs: 30 } }));
  return { text, toolCalls, delayMs: 60 };
}

/** Kills one worker after the other, replacing each at once, until told to stop. Returns the pids of the dead. */
async function killEverySecond(world: World, workers: WorkerProcess[], until: AbortSignal): Promise<number[]> {
  const dead: number[] = [];
  const starting: Promise<unknown>[] = [];
  for (let turn = 0; !until.aborted; turn += 1) {
    await sleep(killEveryMs, undefined, { signal: until }).catch(() => {});
    const victim = workers[turn % workerCount];
    if (until.aborted || !victim) break;
    dead.push(victim.pid);
    victim.kill9();
    starting.push(
      world.work().then((worker) => {
        workers[turn % workerCount] = worker;
      }),
    );
    await starting[turn - 1]; // a slow machine must not leave nobody to kill
  }
  await Promise.all(starting);
  return dead;
}

const expectedTools = (turn: number): string[] =>
  turn % 2 === 1 ? ["look", "put", "post"] : [["put", "post", "look"][(turn / 2) % 3] as string];

function expectSound(runId: string, messages: Message[]): void {
  expect(problemsOf(messages)).toEqual([]);
  expect(textsOf(messages)).toEqual(Array.from({ length: turnCount }, (_, index) => textOfTurn(runId, index + 1)));
  const results = messages.filter((message) => message.role === "tool");
  const turns = Array.from({ length: turnCount - 1 }, (_, index) => index + 1);
  expect(results.map(({ name }) => name)).toEqual(turns.flatMap(expectedTools));
  for (const { outcome, name } of results) expect(name === "post" ? ["ok", "unknown"] : ["ok"]).toContain(outcome);
}

function expectLedger(world: World, dead: number[], transcripts: Map<string, Message[]>): void {
  const entries = world.ledger.entries();
  const calls = [...transcripts].flatMap(([runId, messages]) =>
    messages.flatMap((message) => (message.role === "tool" ? [{ ...message, key: `${runId}:${message.callId}` }] : [])),
  );
  const keysOf = (tool: string): string[] => calls.filter(({ name }) => name === tool).map(({ key }) => key);
  // Idempotent: under every key the effect took place, once, and under no other.
  expect(world.ledger.effects()).toEqual(keysOf("put").sort());
  // Plain: begun at most once; an unknown outcome only where the worker that began it died, or died before it could.
  const posts = entries.filter(({ tool }) => tool === "post");
  expect(new Set(posts.map(({ key }) => key)).size).toBe(posts.length);
  for (const { key, outcome } of calls.filter(({ name }) => name === "post")) {
    const begun = posts.find((entry) => entry.key === key);
    if (outcome === "ok") expect(begun).toBeDefined();
    else if (begun) expect(dead).toContain(begun.pid);
  }
  for (const tool of ["look", "put"]) {
    expect(new Set(entries.filter((entry) => entry.tool === tool).map(({ key }) => key)).size).toBe(
      keysOf(tool).length,
    );
  }
}

test.each([
  ["as they come", false],
  ["with every step redelivered", true],
])(
  "[G1] [G2] [G3] [G4] [G8] [D1] 50 runs of 10 turns survive a kill every second, steps %s",
  async (_title, redeliver) => {
    const world = await makeWorld({ respond, redeliver, toolTimeoutMs: 1_000 });
    const workers = await Promise.all(Array.from({ length: workerCount }, () => world.work()));
    const done = new AbortController();
    const killing = killEverySecond(world, workers, AbortSignal.any([done.signal, AbortSignal.timeout(killForMs)]));
    const startedAt = Date.now();
    const runs = await Promise.all(
      Array.from({ length: runCount }, (_, index) => {
        const runId = `kills-${index}`;
        return world.drover.start("e2e", `${runId} go`, { runId });
      }),
    );
    const results = await resultsOf(runs, 90_000);
    const tookMs = Date.now() - startedAt;
    done.abort();
    const dead = await killing;
    expect(results.filter(({ status }) => status !== "completed")).toEqual([]);
    expect(dead.length).toBeGreaterThanOrEqual(3);
    const transcripts = new Map<string, Message[]>();
    for (const run of runs) transcripts.set(run.id, await run.transcript());
    for (const [runId, messages] of transcripts) expectSound(runId, messages);
    expectLedger(world, dead, transcripts);
    const unknown = [...transcripts.values()]
      .flat()
      .filter((message) => message.role === "tool" && message.outcome === "unknown");
    process.stdout.write(
      `kills: ${runCount} runs in ${tookMs} ms, ${dead.length} kills, ${unknown.length} unknown outcomes\n`,
    );
  },
);
