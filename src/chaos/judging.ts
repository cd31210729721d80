import { setTimeout as sleep } from "node:timers/promises";
import type { Backend } from "../backend.ts";
import type { FeedEntry } from "../core/event.ts";
import type { Message } from "../core/message.ts";
import { isEnded, type Run } from "../core/run.ts";
import { ownParts, transcriptOf } from "../core/session.ts";
import type { Agent } from "../define-agent.ts";
import { outputOf } from "../engine/output-of.ts";
import { inputOf } from "./doings.ts";
import type { Evidence, Finding, Frozen, JudgedChild, Window } from "./evidence.ts";
import type { Execution } from "./execution.ts";
import { type Hint, hintsOf } from "./hints.ts";
import { judge, toJudged } from "./judge.ts";
import { type ModelCall, openLedger } from "./ledger.ts";
import type { Done } from "./people.ts";
import type { Scripts } from "./script.ts";
import { noTally, type Tally } from "./tally.ts";
import { untilAnswered } from "./until-answered.ts";

export type JudgingOptions = {
  agents: readonly Agent[];
  seed: number;
  scriptsOf: (agent: Agent, seed: number) => Scripts;
  /** Where the ledger is. */
  dir: string;
  backend: Pick<Backend, "store" | "engine">;
  fleetPauses: () => readonly Window[];
  frozen: () => readonly Frozen[];
  /** Whether a run is given up in which nothing has changed since then (by `performance.now()`). */
  isOver: (since: number) => boolean;
  signal: AbortSignal;
  tell: (findings: Finding[], tally: Tally) => void;
  onHints?: ((hints: Hint[]) => void) | undefined;
};

/** `ends`: how the run ends undisturbed, if that is known. */
export type Task = { agent: Agent; runId: string; done: Done; ends: Evidence["ends"] };

export type Judging = {
  /** Judges a run that has ended, and its children once they have. */
  judge(task: Task): Promise<void>;
  failed(runId: string, message: string): void;
  /** When all have ended: runs that nobody knows of, and what was done in the name of runs that are not there. */
  judgeRest(): Promise<void>;
  /** When nobody is at work any more: what was done in the name of runs after they were judged. */
  judgeLate(): Promise<void>;
};

/** What was done in the name of one run. */
type Noted = { executions: Execution[]; modelCalls: ModelCall[] };
type Notes = {
  of(runId: string): Noted;
  runIds(): string[];
  /** Runs of which more was noted since they were asked for. */
  grown(): string[];
  silences(): Frozen[];
};
type Read = { run: Run | null; messages: Message[]; feed: FeedEntry[] };

const lookEveryMs = 200;

type About = { tools: Evidence["tools"]; scripts: Scripts };
/** What a run was judged by, and what was found. */
type Judged = { agent: string; known: Case["known"]; told: Set<string> };
type Docket = JudgingOptions & { notes: Notes; judged: Map<string, Judged | null>; about: ReadonlyMap<string, About> };

/** Holds runs against the ledger of the workers' tools and models. */
export function createJudging(options: JudgingOptions): Judging {
  const { agents, seed, scriptsOf, tell } = options;
  const knows = (name: string): boolean => agents.some((agent) => agent.name === name);
  const about = new Map(
    agents.map((agent) => {
      const tools = new Map(agent.tools.map((tool) => [tool.name, toJudged(tool, knows)]));
      return [agent.name, { tools, scripts: scriptsOf(agent, seed) }];
    }),
  );
  const docket: Docket = { ...options, notes: createNotes(options.dir), judged: new Map(), about };
  return {
    failed(runId, message) {
      docket.judged.set(runId, null);
      tell([{ kind: "stuck", runId, message }], { ...noTally(), runs: 1, stuck: 1 });
    },
    async judge({ agent, runId, done, ends }) {
      const { input, before, retries } = done;
      const counted = { runs: 1, retries, inputs: input?.taken ? 1 : 0 };
      await judgeOne(docket, agent.name, runId, { counted, known: { asked: inputOf(runId), ends, input, before } });
    },
    judgeRest: () => judgeRest(docket),
    judgeLate: () => judgeLate(docket),
  };
}

/** `known`: beyond what is read; `counted`: beyond what that tells. */
type Case = { known?: Partial<Evidence>; counted: Partial<Tally> };

async function judgeOne(docket: Docket, agent: string, runId: string, { known, counted }: Case): Promise<void> {
  const judged: Judged = { agent, known, told: new Set() };
  docket.judged.set(runId, judged);
  const read = await readRun(docket.backend, runId, docket.signal);
  const findings = await findingsOf(docket, runId, judged, read);
  const { messages, feed } = read;
  const redeliveries = feed.reduce(
    (sum, entry) => sum + ("deliveries" in entry && entry.deliveries ? entry.deliveries - 1 : 0),
    0,
  );
  const unknown = messages.filter((message) => message.role === "tool" && message.outcome === "unknown").length;
  const runPauses = feed.filter(({ type }) => type === "run_paused").length;
  docket.tell(findings, { ...noTally(findings), ...counted, redeliveries, unknown, runPauses });
}

/** What is wrong with a run beyond what was told of it before. */
async function findingsOf(
  docket: Docket,
  runId: string,
  { agent, known, told }: Judged,
  read: Read,
): Promise<Finding[]> {
  const { about, notes, fleetPauses, frozen } = docket;
  const evidence = {
    ...{ runId, ...read, ...known },
    children: await judgeChildren(docket, read),
    ...notes.of(runId),
    tools: about.get(agent)?.tools ?? new Map(),
    script: about.get(agent)?.scripts(runId),
    fleetPauses: fleetPauses(),
    frozen: [...frozen(), ...notes.silences()],
  };
  docket.onHints?.(hintsOf(evidence));
  const findings = judge(evidence).filter(({ message }) => !told.has(message));
  for (const { message } of findings) told.add(message);
  return findings;
}

/** A process that was frozen or cut off may go on with a run that others have brought to its end. */
async function judgeLate(docket: Docket): Promise<void> {
  const { notes, judged, backend, signal, tell } = docket;
  for (const runId of notes.grown()) {
    const known = judged.get(runId);
    if (!known) continue;
    const findings = await findingsOf(docket, runId, known, await readRun(backend, runId, signal));
    if (findings.length > 0) tell(findings, noTally(findings));
  }
}

/** They end soon after their parent, if not before. */
async function judgeChildren(docket: Docket, { run, feed }: Read): Promise<JudgedChild[]> {
  const { backend, signal, judged } = docket;
  const ids = new Set(
    feed.flatMap((entry) => (entry.type === "child_started" || entry.type === "child_ended" ? [entry.childId] : [])),
  );
  const children: JudgedChild[] = [];
  for (const childId of run ? ids : []) {
    await untilEnded(docket, childId);
    const loaded = await untilAnswered(() => backend.store.loadWithLastMessage(childId), signal);
    if (!judged.has(childId)) await judgeOne(docket, loaded?.run.agent ?? "", childId, { counted: { children: 1 } });
    if (loaded) children.push({ run: loaded.run, answer: outputOf(loaded.run, loaded.last) });
  }
  return children;
}

/** Until it has ended, is gone or given up. */
async function untilEnded({ backend, signal, isOver }: Docket, runId: string): Promise<void> {
  let revision = 0;
  let since = performance.now();
  while (!isOver(since) && !signal.aborted) {
    const run = await untilAnswered(() => backend.store.load(runId), signal);
    if (!run || isEnded(run)) return;
    if (run.revision !== revision) since = performance.now();
    revision = run.revision;
    await sleep(lookEveryMs, undefined, { signal }).catch(() => {});
  }
}

async function judgeRest(docket: Docket): Promise<void> {
  const { backend, signal, judged, notes, tell } = docket;
  const runs = await allRuns(backend, signal);
  for (const { runId, agent } of runs) {
    if (judged.has(runId)) continue;
    await untilEnded(docket, runId);
    await judgeOne(docket, agent, runId, { counted: { children: 1 } });
  }
  const children = runs.filter(({ parent }) => parent);
  const byCall = Map.groupBy(children, ({ parent }) => `${parent?.runId} ${parent?.callId}`);
  const findings: Finding[] = [];
  for (const [call, [first, ...more]] of byCall) {
    const [runId = "", callId] = call.split(" ");
    const ids = [first, ...more].map((child) => child?.runId).join(", ");
    if (more.length > 0)
      findings.push({ kind: "duplicated", runId, message: `${callId} has several children: ${ids}` });
  }
  for (const runId of notes.runIds()) {
    if (!judged.has(runId))
      findings.push({ kind: "lost", runId, message: "work was done for it, and it is not there" });
  }
  tell(findings, noTally(findings));
}

async function readRun({ store }: Pick<Backend, "store">, runId: string, signal: AbortSignal): Promise<Read> {
  return untilAnswered(async () => {
    const run = await store.load(runId);
    const parts = run ? ownParts(run) : [];
    const transcript = run ? transcriptOf(run) : runId;
    const messages = (await Promise.all(parts.map(([from, to]) => store.readMessages(transcript, from, to)))).flat();
    return { run, messages, feed: await store.readFeed(runId, 0, 10_000) };
  }, signal);
}

async function allRuns({ store }: Pick<Backend, "store">, signal: AbortSignal): Promise<Run[]> {
  const runs: Run[] = [];
  let cursor: string | undefined;
  do {
    const page = await untilAnswered(() => store.list({ limit: 200, cursor }), signal);
    runs.push(...page.runs);
    cursor = page.cursor;
  } while (cursor !== undefined && !signal.aborted);
  return runs;
}

/** The ledger by run, read on as it grows. */
function createNotes(dir: string): Notes {
  const ledger = openLedger(dir);
  const byRun = new Map<string, Noted>();
  const askedFor = new Map<string, number>();
  const silences: Frozen[] = [];
  const sizeOf = ({ executions, modelCalls }: Noted): number => executions.length + modelCalls.length;
  const noted = (runId: string): Noted => {
    const known = byRun.get(runId) ?? { executions: [], modelCalls: [] };
    byRun.set(runId, known);
    return known;
  };
  const readOn = (): void => {
    for (const execution of ledger.readExecutions()) {
      // A key begins with the id of its run.
      const of = execution.type === "effect" ? (execution.key.split(":")[0] ?? "") : execution.runId;
      noted(of).executions.push(execution);
    }
    for (const call of ledger.readModelCalls()) noted(call.runId).modelCalls.push(call);
    silences.push(...ledger.readSilences());
  };
  return {
    of(runId) {
      readOn();
      const found = noted(runId);
      askedFor.set(runId, sizeOf(found));
      return found;
    },
    runIds() {
      readOn();
      return [...byRun.keys()];
    },
    grown() {
      readOn();
      return [...askedFor].flatMap(([runId, size]) => (sizeOf(noted(runId)) > size ? [runId] : []));
    },
    silences: () => silences,
  };
}
