import { mkdirSync, writeFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { Evidence } from "../../chaos/evidence.ts";
import { addHints, type Hint } from "../../chaos/hints.ts";
import { type Failure, type PointOptions, playCalm, playPoints, searchPoints } from "../../chaos/points.ts";
import { type ProcessOptions, type ProcessReport, runProcesses } from "../../chaos/processes.ts";
import { readSchedule, type Schedule } from "../../chaos/schedule.ts";
import { shrink } from "../../chaos/shrink.ts";
import { isGreen } from "../../chaos/tally.ts";
import { makeTimedFaults } from "../../chaos/timed-faults.ts";
import { DroverError } from "../../core/errors.ts";
import type { Run } from "../../core/run.ts";
import type { Agent } from "../../define-agent.ts";
import { type Context, embeddedDir } from "../context.ts";
import { count } from "../format/text.ts";
import { loadAgents } from "../load-agents.ts";
import { listenForStop } from "../signals.ts";
import type { ChaosCommand } from "./command.ts";
import { faultWords, type Part, tellHints, tellTable, tellTools } from "./tell.ts";
import { realUnder, type ToolMode, toMode, toScriptsOf } from "./tools.ts";

type Play = {
  context: Context;
  file: string;
  command: ChaosCommand;
  /** Those that are played, and all of the file. */
  agents: Agent[];
  all: Agent[];
  seed: number;
  mode: ToolMode;
  signal: AbortSignal;
  parts: Part[];
  hints: Hint[];
  /** For people, on standard error where standard output is JSON. */
  say: (text: string) => void;
};

const randomPlays = 150;
const mostAtOnce = 30;
const faultEveryMs = 700;
const shrinkTries = 8;
const mostTold = 10;

/** Plays chaos with the agents of a file. @returns 0 only if everything was as it must be. */
export async function runChaos(context: Context, file: string, command: ChaosCommand): Promise<number> {
  const { output } = context;
  const stop = listenForStop();
  const schedule = command.schedule === undefined ? undefined : readSchedule(command.schedule);
  const mode = toMode(command);
  const all = await loadAgents(file, context.dir);
  const agents = chooseAgents(all, command, schedule);
  const seed = schedule?.seed ?? command.seed ?? Math.floor(Math.random() * 1_000_000_000);
  const say = (text: string): void => (command.json ? output.note(text) : output.line(text));
  const play: Play = {
    context,
    file,
    command,
    agents,
    all,
    seed,
    mode,
    signal: stop.signal,
    parts: [],
    hints: [],
    say,
  };
  say(
    `${count(agents.length, "agent")} of ${file}, seed ${seed}. The model is made up; no key is used, no Redis of yours is touched.`,
  );
  tellTools({ agents, all, mode, say, warn: output.note });
  try {
    const failure = schedule ? await replay(play, schedule) : await search(play);
    if (stop.signal.aborted) {
      output.note(`stopped, seed ${seed}`);
      return stop.exitCode();
    }
    return conclude(play, failure);
  } finally {
    stop.release();
  }
}

function chooseAgents(all: Agent[], { agent }: ChaosCommand, schedule: Schedule | undefined): Agent[] {
  let names = agent === undefined ? all.map(({ name }) => name) : [agent];
  if (schedule) names = schedule.layer === "points" ? [schedule.agent] : schedule.agents;
  return names.map((name) => {
    const found = all.find((one) => one.name === name);
    if (found) return found;
    const known = all.map((one) => one.name).join(", ");
    throw new DroverError("not_found", `There is no agent "${name}" in this file. It has: ${known}.`);
  });
}

async function search(play: Play): Promise<Failure | undefined> {
  const { command } = play;
  const ends: Ends = new Map();
  if (command.only !== "processes") {
    for (const agent of play.agents) {
      const failure = await searchAgent(play, agent, ends);
      if (failure || play.signal.aborted) return failure;
    }
  }
  return command.only === "points" ? undefined : searchProcesses(play, ends);
}

async function searchAgent(play: Play, agent: Agent, ends: Ends): Promise<Failure | undefined> {
  const { command, signal, say, parts, agents } = play;
  const startedAt = performance.now();
  const timeLimit = AbortSignal.timeout((command.minutes * 60_000) / agents.length);
  const report = await searchPoints({
    ...toPoints(play, agent),
    randomPlays,
    signal: AbortSignal.any([signal, timeLimit]),
  });
  const { tally, points, plays, undisturbed, failure } = report;
  play.hints = addHints(play.hints, report.hints);
  learnEnd(agent, undisturbed.run, ends);
  parts.push({ name: `in memory: ${agent.name}`, tally });
  const { run } = undisturbed;
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  const early = !failure && timeLimit.aborted ? " (the time was up before all was tried: --minutes)" : "";
  say(
    `  ${agent.name}: played ${count(plays, "time")} in memory in ${seconds} s, with a fault at each of its ${count(points, "commit")} and other calls, then several at once${failure ? ", until something went wrong" : early}`,
  );
  if (run && run.stopReason !== "answered") {
    say(`    undisturbed it ends as ${run.status} (${run.stopReason}): give its model better words with --script`);
  }
  return failure;
}

type Ends = Map<string, Evidence["ends"]>;

/** What an agent's own check says of a made-up answer is not known beforehand. */
function learnEnd({ name, code }: Agent, run: Run | null, ends: Ends): void {
  if (run && !code.answers.verify) ends.set(name, { status: run.status, stopReason: run.stopReason });
}

/** Those that are not known yet are played once, in memory. */
async function learnEnds(play: Play, ends: Ends): Promise<Ends> {
  for (const agent of play.agents) {
    if (!ends.has(agent.name)) learnEnd(agent, (await playCalm(toPoints(play, agent))).run, ends);
  }
  return ends;
}

/** The agent, and all of its file: its tools may hand work to them. */
function toPoints({ command, seed, mode, all }: Play, agent: Agent): PointOptions {
  const scriptsOf = toScriptsOf(command.script);
  const others = all
    .filter((other) => other !== agent)
    .map((other) => ({ agent: other, scripts: scriptsOf(other, seed) }));
  return { agent, seed, scripts: scriptsOf(agent, seed), isReal: realUnder(mode), others };
}

async function searchProcesses(play: Play, ends: Ends): Promise<Failure | undefined> {
  const { command, seed, parts } = play;
  const { workers, minutes, runs } = command;
  // Faster than that, and kills leave no worker the time to do anything.
  const durationMs = Math.min(minutes * 60_000, Math.max(15_000, runs * 500));
  const faults = makeTimedFaults({ seed, workers, durationMs, everyMs: faultEveryMs, keepsAll: true });
  const options = { ...toProcesses(play, await learnEnds(play, ends)), faults, spreadMs: durationMs };
  play.say(
    `  ${count(runs, "run")} in ${count(workers, "worker process", "worker processes")} over a private Redis, some in sessions, some paused for a while, ${count(faults.length, "fault")} in ${Math.round(durationMs / 1000)} s ...`,
  );
  const report = await runProcesses(options);
  parts.push({ name: "in processes", tally: report.tally });
  play.hints = addHints(play.hints, report.hints);
  if (report.findings.length === 0) return undefined;
  const { names, fewest } = await shrinkProcesses(play, options, report);
  const schedule: Schedule = { layer: "processes", agents: names, runs, workers, seed, faults: fewest };
  return { schedule, findings: report.findings };
}

function toProcesses(
  { context, file, command, agents, all, seed, mode, signal, say }: Play,
  ends: Ends,
): Omit<ProcessOptions, "faults" | "spreadMs"> {
  const main = fileURLToPath(new URL(import.meta.url.endsWith(".ts") ? "../main.ts" : "../main.js", import.meta.url));
  const { script, runs, workers } = command;
  const args = ["chaos-worker", resolve(context.dir, file), "--tools", mode];
  if (script !== undefined) args.push("--script", resolve(context.dir, script));
  const isReal = realUnder(mode);
  // While code of the user's is executed, nothing changes.
  const longest = all.flatMap(({ tools, code: { answers } }) => [
    ...tools.filter(isReal).map(({ timeoutMs }) => timeoutMs),
    ...(answers.verify ? [answers.verifyTimeoutMs] : []),
  ]);
  let toldAt = performance.now();
  return {
    ...{ agents: all, started: agents, seed, runs, workers, mostAtOnce, signal },
    program: { file: main, args },
    scriptsOf: toScriptsOf(script),
    endOf: ({ name }) => ends.get(name),
    lively: false,
    fsync: "always",
    patienceMs: 90_000 + 2 * Math.max(0, ...longest),
    onProgress({ ended, tally }) {
      if (performance.now() - toldAt < 5_000) return;
      toldAt = performance.now();
      say(
        `    ${ended} of ${runs} runs ended, ${count(tally.kills, "kill")}, ${count(tally.restarts, "restart")} of Redis`,
      );
    },
  };
}

/** Leaves out what is not needed to fail again. Processes have a will of their own: what passes once may fail the next time. */
async function shrinkProcesses(
  { say, signal }: Play,
  options: ProcessOptions,
  { findings }: ProcessReport,
): Promise<{ names: string[]; fewest: ProcessOptions["faults"][number][] }> {
  const names = (options.started ?? options.agents).map(({ name }) => name);
  say(`  ${count(findings.length, "finding")}; looking for the faults that it takes ...`);
  const fails = async (faults: ProcessOptions["faults"]): Promise<boolean> => {
    if (signal.aborted) return false;
    return (await runProcesses({ ...options, faults })).findings.length > 0;
  };
  return { names, fewest: await shrink(options.faults, fails, shrinkTries) };
}

async function replay(play: Play, schedule: Schedule): Promise<Failure | undefined> {
  const { command, parts } = play;
  if (schedule.layer === "processes") {
    const { faults, runs, workers } = schedule;
    const spreadMs = Math.max(15_000, runs * 500);
    const replayed = { ...play, command: { ...command, runs, workers } };
    const report = await runProcesses({ ...toProcesses(replayed, await learnEnds(play, new Map())), faults, spreadMs });
    parts.push({ name: "in processes", tally: report.tally });
    play.hints = report.hints;
    return report.findings.length > 0 ? { schedule, findings: report.findings } : undefined;
  }
  const [agent] = play.agents as [Agent];
  const { tally, findings, hints } = await playPoints(toPoints(play, agent), schedule);
  play.hints = hints;
  parts.push({ name: `in memory: ${agent.name}`, tally });
  return findings.length > 0 ? { schedule, findings } : undefined;
}

function conclude(play: Play, failure: Failure | undefined): number {
  const { context, parts, hints, seed, command, say } = play;
  const { output } = context;
  const green = failure === undefined && parts.every(({ tally }) => isGreen(tally));
  const replay = failure && replayOf(play, failure);
  if (command.json) {
    output.json({ ok: green, seed, parts, hints, ...(failure ? { failure, replay } : {}) });
    return green ? 0 : 1;
  }
  tellTable(output, parts);
  tellHints(hints, say);
  if (green) say(output.mark("green", `All was right, seed ${seed}: nothing lost, nothing twice, nothing stuck.`));
  if (failure) tellFailure(play, failure, replay ?? "");
  return green ? 0 : 1;
}

function tellFailure({ context: { output }, seed, say }: Play, failure: Failure, replay: string): void {
  const { findings, schedule, firstAt } = failure;
  for (const { runId, message } of findings.slice(0, mostTold)) say(output.mark("red", `Wrong: ${runId}: ${message}`));
  const { faults } = schedule;
  const told = JSON.stringify(faults.slice(0, mostTold));
  say(faults.length === 0 ? "It takes no fault." : `It takes ${count(faults.length, "fault")}: ${told}`);
  const [first] = schedule.layer === "points" ? schedule.faults : [];
  if (first && firstAt) say(`  at ${firstAt}, call ${first.call} of the run: ${faultWords[first.fault]}`);
  say(`Seed ${seed}. Play it again: ${replay}`);
}

/** The command that plays a failure again. */
function replayOf({ context, file, command, mode }: Play, failure: Failure): string {
  const schedule = keepSchedule(context, failure, command.schedule);
  const options = [
    ...(mode === "harmless" ? [] : [mode === "real" ? "--real-tools" : "--stub-tools"]),
    ...(command.script === undefined ? [] : ["--script", command.script]),
  ];
  return [context.program, "chaos", file, "--schedule", schedule, ...options].join(" ");
}

/** Where the schedule of a failure is kept, beside the private Redis. */
function keepSchedule(context: Context, { schedule }: Failure, given: string | undefined): string {
  if (given !== undefined) return given;
  const dir = embeddedDir(context);
  mkdirSync(dir, { recursive: true });
  const file = join(dir, `chaos-${schedule.seed}.json`);
  writeFileSync(file, `${JSON.stringify(schedule, null, 2)}\n`);
  return relative(context.dir, file);
}
