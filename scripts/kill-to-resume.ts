// node scripts/kill-to-resume.ts [--kills 100]: how long after the kill -9 of a worker, with default settings, another one
// begins the step that it held. Prints the distribution, and fails unless its p99 is under 5 s.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { openBackend } from "../src/backend.ts";
import { startCrew } from "../src/chaos/crew.ts";
import type { Begun } from "../src/chaos/execution.ts";
import { openLedger } from "../src/chaos/ledger.ts";
import { startChaosRedis } from "../src/chaos/redis-server.ts";
import { startRelay } from "../src/chaos/relay.ts";
import { listenForStop } from "../src/cli/signals.ts";
import { prepare } from "../src/drover.ts";
import { type Release, withReleases } from "../src/releases.ts";
import { createSilentLogger } from "../src/telemetry/logger.ts";
import { createNoTelemetry } from "../src/telemetry/no-telemetry.ts";
import { readNumber } from "./soak/numbers.ts";

const limitMs = 5_000;
const { values } = parseArgs({ options: { kills: { type: "string", default: "100" } } });
const kills = readNumber("kills", values.kills, 1);
const prefix = "{drover-resume}";
const dir = mkdtempSync(join(tmpdir(), "drover-chaos-"));
const stop = listenForStop();
const tookMs = await withReleases(measure).catch((error: unknown) => {
  if (!stop.signal.aborted) throw error;
  console.log(`kill to resume: stopped before its end`);
  return process.exit(stop.exitCode());
});

async function measure(later: (release: Release) => void): Promise<number[]> {
  later(() => rmSync(dir, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }));
  const redis = await startChaosRedis(join(dir, "redis"), "everysec");
  later(redis.stop);
  const program = { file: fileURLToPath(new URL("soak/resume-worker.ts", import.meta.url)), args: [] };
  const worker = { prefix, dir, seed: 1, stubMs: 0, concurrency: 100 };
  const crew = await startCrew({ count: 3, program, redis: redis.socketPath, worker });
  later(crew.close);
  const relay = await startRelay(redis.socketPath);
  later(relay.close);
  const { backendOptions } = prepare({
    redis: relay.url,
    prefix,
    logger: createSilentLogger(),
    telemetry: createNoTelemetry(),
  });
  const backend = openBackend(backendOptions, "producer");
  later(backend.close);
  await backend.connection.ready();
  const begun = watchLedger();
  const tookMs: number[] = [];
  for (let kill = 0; kill < kills; kill += 1) {
    // Somebody stands by, so that only the noticing is measured and not the start of a process.
    await crew.settled(stop.signal);
    const runId = `resume-${kill}`;
    await backend.engine.client.start("sleeper", "sleep", { runId });
    const held = await begun(runId, 1);
    // Anywhere in the life of a lock, and of the check for lost ones.
    await sleep(Math.random() * 1_500);
    const killedAt = Date.now();
    if (!crew.kill(crew.pids().indexOf(held.pid))) throw new Error(`${runId} is held by no worker that can be killed`);
    tookMs.push((await begun(runId, 2)).at - killedAt);
    await backend.engine.handle(runId).result({ timeoutMs: 60_000, signal: stop.signal });
  }
  return tookMs;
}

/** The n-th time that the run's tool was begun. */
function watchLedger(): (runId: string, count: number) => Promise<Begun> {
  const ledger = openLedger(dir);
  const seen: Begun[] = [];
  return async (runId, count) => {
    for (;;) {
      stop.signal.throwIfAborted();
      for (const entry of ledger.readExecutions()) if (entry.type === "begun") seen.push(entry);
      const found = seen.filter((entry) => entry.runId === runId)[count - 1];
      if (found) return found;
      await sleep(5);
    }
  };
}

tookMs.sort((a, b) => a - b);
const at = (share: number): number => tookMs[Math.min(tookMs.length - 1, Math.ceil(share * tookMs.length) - 1)] ?? 0;
console.log(
  `kill to resume: ${kills} kills, p50 ${at(0.5)} ms, p90 ${at(0.9)} ms, p99 ${at(0.99)} ms, longest ${at(1)} ms`,
);
if (at(0.99) >= limitMs) process.exitCode = 1;
