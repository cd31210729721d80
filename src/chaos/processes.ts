import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Backend, openBackend } from "../backend.ts";
import { toError } from "../core/errors.ts";
import type { Redactor } from "../core/redact.ts";
import type { Agent } from "../define-agent.ts";
import { prepare } from "../drover.ts";
import { type Release, withReleases } from "../releases.ts";
import { createSilentLogger } from "../telemetry/logger.ts";
import { createNoTelemetry } from "../telemetry/no-telemetry.ts";
import { type Crew, type Program, startCrew } from "./crew.ts";
import { type Doings, doingsOf } from "./doings.ts";
import type { Evidence, Finding } from "./evidence.ts";
import { createFleetPauses } from "./fleet-pauses.ts";
import { addHints, type Hint } from "./hints.ts";
import { createJudging, type Judging } from "./judging.ts";
import { type Leftover, leftoversOf, remainsOf, removeRuns } from "./leftovers.ts";
import { letHappen } from "./mishaps.ts";
import { accompany } from "./people.ts";
import { type ChaosRedis, type Fsync, startChaosRedis } from "./redis-server.ts";
import { startRelay } from "./relay.ts";
import type { Scripts } from "./script.ts";
import { addTally, noTally, type Tally } from "./tally.ts";
import type { TimedFault } from "./timed-faults.ts";

export type ProcessOptions = {
  /** All that the workers serve. */
  agents: readonly Agent[];
  /** Those that runs are started of; default: all. */
  started?: readonly Agent[] | undefined;
  seed: number;
  runs: number;
  workers: number;
  /** Started evenly over this time, and not before the faults begin. */
  spreadMs: number;
  /** At work at once, at most. */
  mostAtOnce: number;
  faults: readonly TimedFault[];
  program: Program;
  scriptsOf: (agent: Agent, seed: number) => Scripts;
  /** How a run of this agent ends undisturbed, if that is known. */
  endOf?: ((agent: Agent) => Evidence["ends"]) | undefined;
  /** People also do what may change how a run ends: cancel it, send it input, limit it too tightly and retry it. */
  lively: boolean;
  fsync: Fsync;
  /** No run is started once the last fault has happened, though there would be more. */
  onlyDisturbed?: boolean | undefined;
  /** A run in which nothing changes for so long, in ms, once the last fault has happened, is stuck. */
  patienceMs: number;
  stubMs?: number | undefined;
  signal?: AbortSignal | undefined;
  /** Told of each as it is found. */
  onFinding?: ((finding: Finding) => void) | undefined;
  onProgress?: ((progress: { started: number; ended: number; tally: Tally; findings: number }) => void) | undefined;
};

export type ProcessReport = { tally: Tally; findings: Finding[]; hints: Hint[]; leftover: Leftover; tookMs: number };

const prefix = "{drover-chaos}";
const quietMs = 15_000;

/**
 * Runs agents in worker processes over a private Redis while faults happen to both, and judges every run by what its
 * tools really did.
 */
export function runProcesses(options: ProcessOptions): Promise<ProcessReport> {
  const startedAt = performance.now();
  return withReleases(async (later) => {
    const report = await perform(options, await open(options, later));
    return { ...report, tookMs: Math.round(performance.now() - startedAt) };
  });
}

/** Redis, workers, and a client of their runs, in a folder of their own. */
async function open(options: ProcessOptions, later: (release: Release) => void): Promise<Parts> {
  const { workers: count, program, signal } = options;
  const ends: (() => void)[] = [];
  const dir = mkdtempSync(join(tmpdir(), "drover-chaos-"));
  const removeAll = (): void => {
    for (const end of ends) end();
    // What a process that is ending still writes is removed too.
    rmSync(dir, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  };
  // Also when this process is ended at once: then nothing is awaited any more.
  process.once("exit", removeAll);
  later(() => process.off("exit", removeAll));
  later(removeAll);
  const redis = await startChaosRedis(join(dir, "redis"), options.fsync);
  ends.push(redis.killNow);
  later(redis.stop);
  const worker = { prefix, dir, seed: options.seed, stubMs: options.stubMs ?? 40, concurrency: 25 };
  const crew = await startCrew({ count, program, redis: redis.socketPath, worker });
  ends.push(crew.killAll);
  later(crew.close);
  await crew.settled(signal);
  const relay = await startRelay(redis.socketPath);
  later(relay.close);
  const logger = createSilentLogger();
  const { backendOptions } = prepare({ redis: relay.url, prefix, logger, telemetry: createNoTelemetry() });
  const backend = openBackend(backendOptions, "producer");
  later(backend.close);
  await backend.connection.ready();
  return { dir, redis, crew, backend, redactor: backendOptions.redaction.redactor };
}

type Parts = { dir: string; redis: ChaosRedis; crew: Crew; backend: Backend; redactor: Redactor };

async function perform(options: ProcessOptions, parts: Parts): Promise<Omit<ProcessReport, "tookMs">> {
  const { redis, crew, backend } = parts;
  const tally = noTally();
  const findings: Finding[] = [];
  let hints: Hint[] = [];
  const stopping = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, stopping.signal]) : stopping.signal;
  const quietTime = { since: Number.POSITIVE_INFINITY };
  const isOver = (since: number): boolean => performance.now() - Math.max(since, quietTime.since) > options.patienceMs;
  const fleetPauses = createFleetPauses({ ...backend, redactor: parts.redactor, pids: crew.pids }, signal);
  const judging = createJudging({
    ...{ ...options, dir: parts.dir, backend, signal, isOver, fleetPauses: fleetPauses.windows, frozen: crew.frozen },
    tell(found, counted) {
      // Who stopped it wants no verdict, and what was stopped can have none.
      if (options.signal?.aborted) return;
      addTally(tally, counted);
      findings.push(...found);
      for (const finding of found) options.onFinding?.(finding);
    },
    onHints(more) {
      hints = addHints(hints, more);
    },
  });
  const pauseFleet = async (forMs: number): Promise<void> => {
    // One that a worker which was just then killed never heard of says nothing, and is not counted.
    if (await fleetPauses.pause(forMs)) tally.fleetPauses += 1;
  };
  try {
    const scene = { crew, redis, prefix, tally, signal, pauseFleet };
    const happening = letHappen(options.faults, scene).finally(() => {
      quietTime.since = performance.now();
    });
    const isQuiet = (): boolean => quietTime.since <= performance.now();
    await Promise.all([happening, runAll(options, { ...parts, judging, tally, findings, signal, isOver, isQuiet })]);
    if (signal.aborted) return { tally, findings, hints, leftover: { steps: [], keys: [], bytes: 0 } };
    await judging.judgeRest();
    await crew.settled(signal);
    await quiet(redis, options);
    await judging.judgeLate();
  } finally {
    stopping.abort();
  }
  const left = await leftoversOf(redis, prefix);
  for (const message of [...crew.deserters(), ...left.steps.map((key) => `a step is left in a queue: ${key}`)]) {
    const finding: Finding = { kind: "stuck", runId: "-", message };
    findings.push(finding);
    options.onFinding?.(finding);
    tally.stuck += 1;
  }
  if (findings.length === 0) await removeRuns(backend);
  const leftover = findings.length === 0 ? await remainsOf(redis, prefix) : left;
  return { tally, findings, hints, leftover };
}

/** Until no step is left in a queue, or long enough. */
async function quiet(redis: ChaosRedis, { signal }: ProcessOptions): Promise<void> {
  const until = performance.now() + quietMs;
  while (performance.now() < until && !signal?.aborted) {
    if ((await leftoversOf(redis, prefix)).steps.length === 0) return;
    await sleep(250);
  }
}

type Going = Parts & {
  judging: Judging;
  tally: Tally;
  findings: Finding[];
  signal: AbortSignal;
  isOver: (since: number) => boolean;
  /** Whether the last fault has happened. */
  isQuiet: () => boolean;
};

async function runAll(options: ProcessOptions, going: Going): Promise<void> {
  const { runs, spreadMs, mostAtOnce, started: agents = options.agents, seed, lively } = options;
  const startedAt = performance.now();
  let started = 0;
  let ended = 0;
  const atOnce = new Set<Promise<void>>();
  for (let index = 0; index < runs && !going.signal.aborted; index += 1) {
    const waitMs = (spreadMs * index) / runs - (performance.now() - startedAt);
    if (waitMs > 5) await sleep(waitMs, undefined, { signal: going.signal }).catch(() => {});
    while (atOnce.size >= mostAtOnce) await Promise.race(atOnce);
    if (options.onlyDisturbed && going.isQuiet()) break;
    const agent = agents[index % agents.length] as Agent;
    const runId = `chaos-${index}`;
    const doings = doingsOf(seed, runId, lively);
    started += 1;
    const task = { agent: agent.name, runId, seed, doings, isOver: going.isOver };
    const one = accompany(going.backend.engine, task, going.signal)
      .then((done) => {
        const ends = isFree(doings) ? undefined : options.endOf?.(agent);
        return going.judging.judge({ agent, runId, done, ends });
      })
      .catch((error: unknown) => going.judging.failed(runId, toError(error).message))
      .finally(() => {
        ended += 1;
        atOnce.delete(one);
        options.onProgress?.({ started, ended, tally: going.tally, findings: going.findings.length });
      });
    atOnce.add(one);
  }
  await Promise.all(atOnce);
}

/** Whether what people do decides how the run ends. */
function isFree({ cancelAfterMs, sendAfterMs }: Doings): boolean {
  return cancelAfterMs !== undefined || sendAfterMs !== undefined;
}
