import type { Agent } from "../define-agent.ts";
import type { RunStore } from "../ports.ts";
import type { Tool } from "../tools/define-tool.ts";
import { inputOf } from "./doings.ts";
import type { Evidence, Finding } from "./evidence.ts";
import { addHints, type Hint, hintsOf } from "./hints.ts";
import { judge, toJudged } from "./judge.ts";
import { type Cast, type Played, play } from "./play.ts";
import { faultsAt, type PointFault } from "./ports.ts";
import { createRandom, randomFor } from "./random.ts";
import type { Schedule } from "./schedule.ts";
import type { Scripts } from "./script.ts";
import { shrink } from "./shrink.ts";
import { addTally, noTally, type Tally } from "./tally.ts";

export type PointOptions = {
  agent: Agent;
  seed: number;
  scripts: Scripts;
  isReal: (tool: Tool) => boolean;
  /** Agents that its tools may hand work to. */
  others?: readonly Cast[] | undefined;
  breakStore?: ((store: RunStore) => RunStore) | undefined;
};

export type PointSearch = PointOptions & {
  /** Plays with several faults in random places, after each fault alone was tried everywhere. */
  randomPlays: number;
  /** No play begins once it is aborted. */
  signal?: AbortSignal | undefined;
  /** Told of each play that is over; `of`: of the run that is being played. */
  onProgress?: ((done: number, of: number) => void) | undefined;
};

/** `firstAt`: the call that the first fault befalls, as `port.method`; undefined: there is none, or faults come by time. */
export type Failure = { schedule: Schedule; findings: Finding[]; firstAt?: string | undefined };

export type PointReport = {
  tally: Tally;
  /** Port calls of the undisturbed run. */
  points: number;
  plays: number;
  /** How it ends when nobody disturbs it. */
  undisturbed: Played;
  /** The first failure, shrunk. */
  failure?: Failure | undefined;
  hints: Hint[];
};

/** Runs of the same agent whose models say different things, and whose approvals are decided differently. */
const variants = 2;
const runIdOf = (agent: Agent, variant: number): string => `chaos-${agent.name}`.slice(0, 100) + `-${variant + 1}`;
/** A play with more faults would take a run of its own for each. */
const mostFaults = 6;

/**
 * Tries every fault at every port call of a run of this agent, one by one, and then several together at random places.
 * Ends with the first failure, shrunk.
 */
export async function searchPoints(options: PointSearch): Promise<PointReport> {
  let all: PointReport | undefined;
  for (let variant = 0; variant < variants && !all?.failure; variant += 1) {
    const report = await searchRun(options, runIdOf(options.agent, variant));
    all = all ? joined(all, report) : report;
    if (options.signal?.aborted) break;
  }
  return all as PointReport;
}

/** Of two runs; how it goes undisturbed, and what failed, is that of the later one. */
function joined(one: PointReport, next: PointReport): PointReport {
  return {
    ...next,
    tally: addTally(next.tally, one.tally),
    points: next.points + one.points,
    plays: next.plays + one.plays,
    hints: addHints(one.hints, next.hints),
  };
}

async function searchRun(options: PointSearch, runId: string): Promise<PointReport> {
  const { agent, seed, signal, onProgress, randomPlays } = options;
  const undisturbed = await play({ ...options, runId, schedule: [] });
  const calm = judgePlay(options, runId, undisturbed);
  const tally = addTally(noTally(), tallyOf(undisturbed, calm));
  const hints = hintsOfPlay(options, runId, undisturbed);
  const report = { tally, points: undisturbed.calls.length, plays: 1, undisturbed, hints };
  if (calm.length > 0) return { ...report, failure: toFailure(options, runId, [], calm) };
  const singles = eachPoint(undisturbed.calls);
  const random = randomFor(seed, "points", agent.name, runId);
  const total = singles.length + randomPlays;
  for (let index = 0; index < total && !signal?.aborted; index += 1) {
    const faults = singles[index] ?? manyPoints(random.between(1, 1_000_000_000), undisturbed.calls.length);
    const played = await play({ ...options, runId, schedule: faults });
    const findings = judgePlay(options, runId, played, undisturbed);
    addTally(tally, tallyOf(played, findings));
    report.hints = addHints(report.hints, hintsOfPlay(options, runId, played));
    report.plays += 1;
    onProgress?.(index + 1, total);
    if (findings.length > 0) return { ...report, failure: await shrinkPoints(options, runId, faults, undisturbed) };
  }
  return report;
}

/** How a run of the agent goes when nobody disturbs it. */
export function playCalm(options: PointOptions): Promise<Played> {
  return play({ ...options, runId: runIdOf(options.agent, 0), schedule: [] });
}

/** Plays one schedule and says what came of it. */
export async function playPoints(
  options: PointOptions,
  { runId, faults }: { runId: string; faults: readonly PointFault[] },
): Promise<{ tally: Tally; findings: Finding[]; hints: Hint[] }> {
  const undisturbed = await play({ ...options, runId, schedule: [] });
  const played = await play({ ...options, runId, schedule: faults });
  const findings = judgePlay(options, runId, played, undisturbed);
  const hints = addHints([], hintsOfPlay(options, runId, played));
  return { tally: addTally(noTally(), tallyOf(played, findings)), findings, hints };
}

function eachPoint(calls: readonly string[]): PointFault[][] {
  return calls.flatMap((label, index) =>
    faultsAt(label).flatMap((fault): PointFault[][] => {
      const point = { call: index + 1, fault };
      return fault.startsWith("pause") ? [[point], [{ ...point, forSteps: 1 }]] : [[point]];
    }),
  );
}

function manyPoints(seed: number, calls: number): PointFault[] {
  const random = createRandom(seed);
  const count = random.between(2, mostFaults);
  const places = new Set(Array.from({ length: count }, () => random.between(1, Math.ceil(calls * 1.5))));
  return [...places]
    .sort((a, b) => a - b)
    .map((call) => ({ call, fault: random.pick(faultsAt("store.")), forSteps: random.between(0, 4) }));
}

async function shrinkPoints(
  options: PointOptions,
  runId: string,
  faults: readonly PointFault[],
  undisturbed: Played,
): Promise<Failure> {
  const findingsOf = async (some: readonly PointFault[]): Promise<Finding[]> =>
    judgePlay(options, runId, await play({ ...options, runId, schedule: some }), undisturbed);
  const fewest = await shrink(faults, async (some) => (await findingsOf(some)).length > 0);
  const [first] = fewest;
  // Up to its first fault a run goes as when nobody disturbs it.
  const firstAt = first && undisturbed.calls[first.call - 1];
  return { ...toFailure(options, runId, fewest, await findingsOf(fewest)), firstAt };
}

function toFailure(
  { agent, seed }: PointOptions,
  runId: string,
  faults: readonly PointFault[],
  findings: Finding[],
): Failure {
  return { schedule: { layer: "points", agent: agent.name, runId, seed, faults: [...faults] }, findings };
}

/** What is wrong with a play, by the rules and by how the run goes when nobody disturbs it. */
export function judgePlay(
  options: PointOptions,
  runId: string,
  played: Played,
  undisturbed: Played = played,
): Finding[] {
  const { agent, scripts, isReal, others = [] } = options;
  const cast = [{ agent, scripts }, ...others];
  const { run, children, trouble } = played;
  const end = undisturbed.run;
  // What a real tool says may differ from one time to the next, and with it how a run ends.
  const anyReal = cast
    .flatMap(({ agent: { tools } }) => tools)
    .some((tool) => !tool.answeredBy && isReal(tool) && !tool.idempotent && tool.effect !== "read");
  const ends = end && !anyReal ? { status: end.status, stopReason: end.stopReason } : undefined;
  const findings = [
    ...judge({
      ...evidenceOf(cast, agent.name, runId),
      ...{ ...played, ...ofRun(played, runId), asked: inputOf(runId), run, ends },
    }),
    ...children.flatMap((child) => {
      const known = evidenceOf(cast, child.run.agent, child.run.runId);
      return judge({ ...known, ...child, ...ofRun(played, child.run.runId) });
    }),
  ];
  if (trouble === undefined) return findings;
  return [...findings.filter(({ kind }) => kind !== "stuck"), { kind: "stuck", runId, message: trouble }];
}

function hintsOfPlay({ agent, scripts, others = [] }: PointOptions, runId: string, played: Played): Hint[] {
  const cast = [{ agent, scripts }, ...others];
  const runs = [
    { name: agent.name, runId },
    ...played.children.map(({ run }) => ({ name: run.agent, runId: run.runId })),
  ];
  return runs.flatMap((one) => hintsOf({ ...evidenceOf(cast, one.name, one.runId), ...ofRun(played, one.runId) }));
}

function evidenceOf(cast: readonly Cast[], name: string, runId: string): Pick<Evidence, "runId" | "tools" | "script"> {
  const knows = (other: string): boolean => cast.some(({ agent }) => agent.name === other);
  const own = cast.find(({ agent }) => agent.name === name);
  const tools = new Map(own?.agent.tools.map((tool) => [tool.name, toJudged(tool, knows)]));
  return { runId, tools, script: own?.scripts(runId) };
}

function ofRun({ executions, children }: Played, runId: string): Pick<Evidence, "executions" | "children"> {
  return {
    // A key begins with the id of its run.
    executions: executions.filter((one) => (one.type === "effect" ? one.key.split(":")[0] : one.runId) === runId),
    children: children.filter(({ run }) => run.parent?.runId === runId),
  };
}

function tallyOf(played: Played, findings: readonly Finding[]): Tally {
  const { happened } = played;
  const count = (...kinds: string[]): number => happened.filter((kind) => kinds.includes(kind)).length;
  return {
    ...noTally(findings),
    runs: 1,
    kills: count("kill_before", "kill_after", "kill_in_flight"),
    pauses: count("pause_before", "pause_after"),
    lostReplies: count("reply_lost", "sent_twice"),
    outages: count("refused"),
    redeliveries: played.redeliveries,
    children: played.children.length,
    unknown: played.messages.filter((message) => message.role === "tool" && message.outcome === "unknown").length,
  };
}
