// npm run soak -- --minutes N [--seed S]: thousands of runs of every kind while workers and Redis are killed, frozen,
// stopped and cut off at random. Ends with one line; zero in each of its last figures is the only pass. Stopped by Ctrl-C
// or SIGTERM it ends its processes, leaves no folder, and says with which seed it was.
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { runProcesses } from "../src/chaos/processes.ts";
import { isGreen } from "../src/chaos/tally.ts";
import { makeTimedFaults } from "../src/chaos/timed-faults.ts";
import { listenForStop } from "../src/cli/signals.ts";
import { agents, scriptsOf } from "./soak/agents.ts";
import { readNumber } from "./soak/numbers.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "1" },
    seed: { type: "string", default: String(Date.now() % 1_000_000_000) },
    /** Runs started in a minute. */
    rate: { type: "string", default: "130" },
    /** Milliseconds between faults, on average. */
    every: { type: "string", default: "1000" },
    workers: { type: "string", default: "4" },
    fsync: { type: "string", default: "always" },
  },
});
const minutes = readNumber("minutes", values.minutes, 0.01);
const seed = readNumber("seed", values.seed, 0);
const rate = readNumber("rate", values.rate, 1);
const everyMs = readNumber("every", values.every, 1);
const workers = readNumber("workers", values.workers, 1);
const fsync = values.fsync === "everysec" ? "everysec" : "always";
const durationMs = minutes * 60_000;
const runs = Math.max(1, Math.round(minutes * rate));
console.log(`soak: ${minutes} min, ${runs} runs, ${workers} workers, appendfsync ${fsync}, seed ${seed}`);

const stop = listenForStop();
let toldAt = 0;
const report = await runProcesses({
  ...{ agents, scriptsOf, seed, runs, workers, fsync },
  spreadMs: durationMs * 0.95,
  mostAtOnce: 150,
  faults: makeTimedFaults({ seed, workers, durationMs, everyMs, keepsAll: fsync === "always" }),
  program: { file: fileURLToPath(new URL("soak/worker.ts", import.meta.url)), args: [] },
  endOf: ({ name }) => (name === "hasty" ? undefined : { status: "completed", stopReason: "answered" }),
  lively: true,
  onlyDisturbed: true,
  patienceMs: 240_000,
  signal: stop.signal,
  onFinding: ({ kind, runId, message }) => console.log(`  ${kind} ${runId}: ${message}`),
  onProgress({ started, ended, tally, findings }) {
    if (Date.now() - toldAt < 15_000) return;
    toldAt = Date.now();
    console.log(
      `  ${started} started, ${ended} judged, ${tally.kills} kills, ${tally.restarts} restarts of Redis, ${findings} findings`,
    );
  },
});
stop.release();
if (stop.signal.aborted) {
  console.log(`soak: stopped before its end, seed ${seed}`);
  process.exit(stop.exitCode());
}
const { tally, findings, leftover, tookMs } = report;
console.log(
  [
    `soak: ${tally.runs} runs in ${Math.round(tookMs / 1000)} s`,
    `${tally.kills} kills`,
    `${tally.pauses} freezes`,
    `${tally.stops} stops`,
    `${tally.restarts} restarts of Redis`,
    `${tally.outages + tally.lostReplies} cut connections`,
    `${tally.fleetPauses} pauses of the fleet`,
    `${tally.runPauses} of a run`,
    `${tally.children} children`,
    `${tally.inputs} inputs in mid-run`,
    `${tally.retries} retries`,
    `${tally.redeliveries} redeliveries`,
    `${tally.unknown} unknown outcomes told`,
    `${tally.lost} lost`,
    `${tally.duplicated} duplicated`,
    `${tally.stuck} stuck`,
    `${tally.effects} effects outside policy`,
    `${tally.outcomes} other ends`,
    `${leftover.bytes} Redis bytes left over`,
    `seed ${seed}`,
  ].join(", "),
);
if (!isGreen(tally) || findings.length > 0 || leftover.bytes > 0) {
  for (const key of leftover.keys.slice(0, 20)) console.log(`  left: ${key}`);
  process.exitCode = 1;
}
