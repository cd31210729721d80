import { mkdirSync } from "node:fs";
import { join, relative } from "node:path";
import { createDrover } from "../../drover.ts";
import { startEmbeddedRedis } from "../../embedded/redis.ts";
import type { RunHandle } from "../../engine/run-handle.ts";
import { hidePassword } from "../../hide-password.ts";
import { createIds } from "../../ids.ts";
import { type Release, withReleases } from "../../releases.ts";
import { createSilentLogger } from "../../telemetry/logger.ts";
import { type Context, embeddedDir } from "../context.ts";
import { count } from "../format/text.ts";
import { toTranscript } from "../format/transcript.ts";
import type { Output } from "../output.ts";
import { listenForStop, type StopRequest } from "../signals.ts";
import { chooseDemoModel, demoAgentName, demoFile, demoTask, toLedgerFile } from "./agent.ts";
import { howToUseRealModel } from "./choose-model.ts";
import { deleteAll } from "./clean-up.ts";
import { type Crew, startCrew } from "./crew.ts";
import { createDirector, type Director } from "./director.ts";
import { readLedger } from "./ledger.ts";
import { type Ending, findFaults, toEffectCounts } from "./verdict.ts";

const scriptedTimeoutMs = 60_000;
const realTimeoutMs = 300_000;

/** The whole demo: two workers, one of which is killed while it holds a step. Resolves to the exit code. */
export async function runDemo(context: Context): Promise<number> {
  const { output } = context;
  const { about, real } = chooseDemoModel(context.config());
  output.line(`Model: ${about}${real ? "" : `; ${howToUseRealModel}`}.`);
  const stop = listenForStop();
  try {
    return await withReleases((later) => play(context, { stop, later, real }));
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    output.note("stopped");
    return stop.exitCode();
  } finally {
    stop.release();
  }
}

type Playing = { stop: StopRequest; later: (release: Release) => void; real: boolean };

async function play(context: Context, { stop, later, real }: Playing): Promise<number> {
  const { output } = context;
  const redisUrl = await openRedis(context, later);
  const runId = `demo-${createIds().token().slice(0, 8)}`;
  const dir = join(embeddedDir(context), "demo", runId);
  mkdirSync(dir, { recursive: true });
  // Apart from the user's runs, whose workers do not know this agent, and from what a demo that was ended left.
  const prefix = `{drover-${runId}}`;
  later(() => deleteAll(redisUrl, prefix));
  const drover = createDrover({ redis: redisUrl, prefix, logger: createSilentLogger() });
  later(drover.close);
  // A Redis that is away is told here in its own words, and not as a worker that did not start.
  await drover.list({ limit: 1 });
  const director = createDirector(output, runId);
  const crew = await startCrew({ names: ["A", "B"], redisUrl, prefix, dir, onReport: director.onReport });
  later(crew.stop);
  output.line(`Workers: ${crew.members.map(({ name, pid }) => `${name} (process ${pid})`).join(", ")}.`);
  const run = await drover.start(demoAgentName, demoTask, { runId });
  output.line(`Run ${runId}: ${demoTask}\n`);
  const result = await run.result({ timeoutMs: real ? realTimeoutMs : scriptedTimeoutMs, signal: stop.signal });
  return await conclude(context, { run, result, crew, director, dir });
}

async function openRedis(context: Context, later: Playing["later"]): Promise<string> {
  const { output } = context;
  const { redisUrl } = context.config();
  if (redisUrl !== undefined) {
    output.line(`Redis: ${hidePassword(redisUrl)}.`);
    return redisUrl;
  }
  const dir = embeddedDir(context);
  const redis = await startEmbeddedRedis({ dir, log: output.line });
  later(redis.stop);
  output.line(`Redis: a private one in ${relative(context.dir, dir)}/ (append-only file, unix socket).`);
  return redis.url;
}

type Scene = { run: RunHandle; result: Ending["result"]; crew: Crew; director: Director; dir: string };

async function conclude(context: Context, { run, result, crew, director, dir }: Scene): Promise<number> {
  const { output } = context;
  const transcript = await run.transcript();
  const ledger = readLedger(toLedgerFile({ dir }));
  const file = join(dir, demoFile);
  const ending: Ending = { result, transcript, ledger, kill: director.kill(), file };
  output.line(`\n${output.mark("bold", "Transcript")}\n${toTranscript(transcript, output.mark)}\n`);
  tellEffects(output, ending, director.held());
  const faults = findFaults(ending);
  for (const fault of faults) output.line(output.mark("red", `Wrong: ${fault}`));
  if (faults.length > 0) {
    if (crew.trouble() !== "") output.note(crew.trouble().trimEnd());
    return 1;
  }
  output.line(output.mark("green", "All was right: nothing lost, nothing twice."));
  tellNext(context, file);
  return 0;
}

function tellEffects(output: Output, { ledger, kill, file }: Ending, held: number): void {
  const seconds = kill?.resumedAfterMs === undefined ? "" : ` after ${(kill.resumedAfterMs / 1000).toFixed(1)} s`;
  if (kill?.rescuer) {
    output.line(
      `Worker ${kill.victim.name} was killed in ${kill.callId}; worker ${kill.rescuer.name} went on${seconds}.`,
    );
  }
  const keys = new Set(ledger.map((entry) => entry.key)).size;
  const each = keys === ledger.length ? "each exactly once" : `under ${count(keys, "key")}`;
  output.line(
    `Effects: ${ledger.length} (${toEffectCounts(ledger)}), ${each}; tools were begun ${count(held, "time")}.`,
  );
  output.line(`File: ${file}`);
}

function tellNext({ output, program }: Context, file: string): void {
  output.line("\nNext:");
  output.line(`  cat ${file}`);
  output.line(`  ${program} dev          a worker and a private Redis; then, in another terminal:`);
  output.line(`  ${program} start assistant "What is 12 * (3 + 4)?" --watch`);
  output.line(`  examples/ and README.md show how to write your own agents`);
}
