import type { JudgedTool } from "../../../src/chaos/evidence.ts";
import { judge as judgeRun } from "../../../src/chaos/judge.ts";
import type { RunFeedEvent } from "../../../src/core/feed.ts";
import type { Message } from "../../../src/core/message.ts";
import { isEnded, type RunStatus } from "../../../src/core/run.ts";
import type { RunView } from "../../../src/engine/run-view.ts";
import type { FakeRequest } from "../../support/fake-openai.ts";
import type { WorkerProcess } from "../../support/worker-process.ts";
import { readFeed, runIdOf, type World } from "../../support/world.ts";
import { remainsOf } from "./remains.ts";

export type JudgeOptions = {
  /** Said with the violations, to run the same again. */
  seed?: number | undefined;
  /** How long all runs together may take to end from now on, in ms; default 0: they have ended. */
  withinMs?: number | undefined;
  /** What runs may end as; default: completed alone. */
  statuses?: readonly RunStatus[] | undefined;
  /** Whether a worker's end was meant, other than by a signal of the test or at its kill point. */
  isCaused?: ((worker: WorkerProcess) => boolean) | undefined;
  /**
   * What the usage of each run is held against. "exact": to the token what the model server answered; default "covered": at least
   * what the answers in the transcript took, at most what the server gave out, since a killed worker cannot report.
   */
  usage?: "exact" | "covered" | undefined;
  /** Tokens of one request, in and out; default: as the fake server counts when it is not told otherwise. */
  tokensOf?: ((request: FakeRequest) => number) | undefined;
};

/** Tools of the tests' agents, as their effects are judged. */
const write: JudgedTool = { effect: "write", idempotent: false, asks: false, byAgent: false };
const tools: ReadonlyMap<string, JudgedTool> = new Map([
  ["look", { ...write, effect: "read" }],
  ["post", write],
  ["put", { ...write, idempotent: true }],
  ["pay", { ...write, effect: "irreversible", asks: true }],
  ["offer", { ...write, effect: "irreversible", asks: true }],
]);
/** Which of them a finding is against. */
const invariants = { lost: "I2", duplicated: "I2", stuck: "I1", outcome: "I1", effect: "I3" } as const;
const complaint = /unhandled|uncaught|MaxListenersExceededWarning|PromiseRejectionHandledWarning/i;

/**
 * Holds a world against the invariants, once whatever hurt it is over:
 * - I1 every run has ended, in time;
 * - I2 its transcript is valid and its feed tells each answer and each result once, in order;
 * - I3 a tool that may not repeat began at most once per call, and an `ok` result means that it did; effects of idempotent tools
 *   took place once for each such result and never else; usage is the model server's own count;
 * - I4 no job of an ended run is left in any queue, none of its runs owes anything;
 * - I5 no worker ended but by the test, and none complained of an unhandled error.
 *
 * @throws Error with all violations, each with its run's id, and the seed.
 */
export async function judge(world: World, options: JudgeOptions = {}): Promise<void> {
  const runs = await allRuns(world);
  const violations = [
    ...(await ends(world, runs, options)),
    ...(await histories(world, runs, options)),
    ...(await remainsOf(world)),
    ...world.workers.flatMap((worker) => processOf(worker, options)),
  ];
  if (runs.length === 0) violations.push("I1: there is no run");
  if (violations.length === 0) return;
  const seed = options.seed === undefined ? "" : ` (seed ${options.seed})`;
  throw new Error(`${violations.length} violations${seed}:\n${violations.slice(0, 50).join("\n")}`);
}

async function allRuns(world: World): Promise<RunView[]> {
  const runs: RunView[] = [];
  let cursor: string | undefined;
  do {
    const page = await world.drover.list({ limit: 100, ...(cursor === undefined ? {} : { cursor }) });
    runs.push(...page.runs);
    cursor = page.cursor;
  } while (cursor !== undefined);
  return runs;
}

async function ends(world: World, runs: readonly RunView[], options: JudgeOptions): Promise<string[]> {
  const { withinMs = 0, statuses = ["completed"] } = options;
  const until = performance.now() + withinMs;
  const violations: string[] = [];
  for (const { runId } of runs) {
    const run = world.drover.get(runId);
    const leftMs = until - performance.now();
    if (leftMs > 0) await run.result({ timeoutMs: leftMs }).catch(() => {}); // its status tells
    const view = await run.status();
    if (statuses.includes(view.status)) continue;
    const why = view.error ? `, ${view.error.code}: ${view.error.message}` : "";
    violations.push(`I1 ${runId}: is ${view.status}${why} after ${view.turns} turns`);
  }
  return violations;
}

/** Some at a time: what reads a thousand at once waits longer for each than a producer does. */
async function histories(world: World, runs: readonly RunView[], options: JudgeOptions): Promise<string[]> {
  const violations: string[] = [];
  for (let from = 0; from < runs.length; from += 50) {
    const some = runs.slice(from, from + 50);
    violations.push(...(await Promise.all(some.map(({ runId }) => history(world, runId, options)))).flat());
  }
  return violations;
}

async function history(world: World, runId: string, options: JudgeOptions): Promise<string[]> {
  const run = world.drover.get(runId);
  const view = await run.status();
  const transcript = await run.transcript();
  if (!isEnded(view)) return [];
  const feed = (await readFeed(world, runId)).filter(
    (event) => event.type !== "text" && event.type !== "text_superseded",
  );
  const findings = judgeRun({
    ...{ runId, run: view, messages: transcript, feed, tools },
    executions: world.ledger.executions().filter((one) => one.type !== "effect" && one.runId === runId),
  });
  const children = feed.filter((event) => event.type === "child_ended");
  return [
    ...findings.map(({ kind, message }) => `${invariants[kind]} ${runId}: ${message}`),
    ...effectsOf(world, runId, transcript),
    ...usageOf(world, view, transcript, { ...options, children }),
  ];
}

type ChildEnd = Extract<RunFeedEvent, { type: "child_ended" }>;
/** What children spent is part of their parent's usage. */
type WithChildren = JudgeOptions & { children: readonly ChildEnd[] };

/** What a tool did that honours its key took place if the model was told so. */
function effectsOf({ ledger }: World, runId: string, transcript: readonly Message[]): string[] {
  const effects = new Set(ledger.effects());
  return transcript.flatMap((message) => {
    if (message.role !== "tool" || message.outcome !== "ok" || !tools.get(message.name)?.idempotent) return [];
    const { name, callId } = message;
    return effects.has(`${runId}:${callId}`) ? [] : [`I3 ${runId}: ${name} of ${callId} is ok and had no effect`];
  });
}

/** What the fake server says of each answer unless it is told otherwise: ten tokens in, five out. */
const usualTokens = 15;

function usageOf(world: World, view: RunView, transcript: readonly Message[], options: WithChildren): string[] {
  const { usage = "covered", tokensOf = () => usualTokens, children } = options;
  const byChildren = children.reduce((sum, { usage: spent }) => sum + spent.inputTokens + spent.outputTokens, 0);
  const counted = view.usage.inputTokens + view.usage.outputTokens - byChildren;
  const requests = world.server.requests.filter((request) => runIdOf(request) === view.runId);
  if (requests.length === 0) return []; // its input does not begin with its id: whose these are cannot be told
  const given = requests.reduce((sum, request) => sum + tokensOf(request), 0);
  const answers = transcript.filter(({ role }) => role === "assistant").length;
  const say = (what: string): string[] => [
    `I3 ${view.runId}: usage is ${counted} tokens, ${what} (${requests.length} requests, ${answers} answers)`,
  ];
  if (usage === "exact") return counted === given ? [] : say(`the server gave out ${given}`);
  // Of an answer that was cut off, tokens are an estimate: only what is plainly too much is wrong.
  if (!view.usage.estimated && counted > given) return say(`the server gave out only ${given}`);
  const least = answers * Math.min(...requests.map(tokensOf));
  return counted < least ? say(`its answers took ${least}`) : [];
}

/** Signals that end a process; others are no reason for it to be gone. */
const ending: ReadonlySet<NodeJS.Signals> = new Set(["SIGKILL", "SIGTERM", "SIGINT"]);

function processOf(worker: WorkerProcess, { isCaused }: JudgeOptions): string[] {
  const meant = worker.signals().some((signal) => ending.has(signal)) || worker.hasKillPoint || isCaused?.(worker);
  const line = worker
    .output()
    .split("\n")
    .find((text) => complaint.test(text));
  return [
    ...(worker.exited() && !meant ? [`I5: worker ${worker.pid} ended and nobody had ended it`] : []),
    ...(line === undefined ? [] : [`I5: worker ${worker.pid} complained: ${line.slice(0, 300)}`]),
  ];
}
