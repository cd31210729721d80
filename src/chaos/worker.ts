import { flushCompileCache } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { DroverError, isOutage } from "../core/errors.ts";
import type { Agent } from "../define-agent.ts";
import { createDrover, type Drover } from "../drover.ts";
import { createLogger } from "../telemetry/logger.ts";
import { noteEffects } from "../testing/record-effect.ts";
import type { Tool } from "../tools/define-tool.ts";
import { chaosAgent } from "./chaos-agent.ts";
import { openLedger } from "./ledger.ts";
import { watchPulse } from "./pulse.ts";
import type { Scripts } from "./script.ts";
import { createWitness } from "./witness.ts";

/** How a worker process is to be; it travels in its environment, as JSON. */
export const workerVariable = "DROVER_CHAOS_WORKER";
const optionsSchema: z.ZodType<WorkerOptions> = z.object({
  redisUrl: z.string(),
  prefix: z.string(),
  dir: z.string(),
  seed: z.int(),
  stubMs: z.int(),
  concurrency: z.int(),
});
export type WorkerOptions = {
  redisUrl: string;
  prefix: string;
  /** Where the ledger is. */
  dir: string;
  seed: number;
  /** How long a stub takes at most. */
  stubMs: number;
  concurrency: number;
};

export type WorkerParts = {
  agents: readonly Agent[];
  scriptsOf: (agent: Agent, seed: number) => Scripts;
  isReal: (tool: Tool) => boolean;
};

const graceMs = 2_000;

/** @throws DroverError "invalid" when this process was not started as a worker of chaos. */
export function readWorkerOptions(): WorkerOptions {
  const text = process.env[workerVariable];
  const parsed = text === undefined ? undefined : optionsSchema.safeParse(JSON.parse(text));
  if (parsed?.success && process.send) return parsed.data;
  throw new DroverError("invalid", "This is a worker of `drover chaos`, which starts it; it is not started by hand.");
}

/** An ordinary worker, but that its agents are scripted and watched. Resolves when it was told to stop and has. */
export async function runChaosWorker(
  options: WorkerOptions,
  { agents, scriptsOf, isReal }: WorkerParts,
): Promise<void> {
  // Who started it is gone: there is nobody to judge any more.
  process.once("disconnect", () => process.exit(1));
  const stop = new Promise<void>((resolve) => process.once("SIGTERM", () => resolve()));
  // A terminal's Ctrl-C reaches all that run under it; it is for whoever started this, who ends it.
  process.on("SIGINT", () => {});
  const { dir, seed, stubMs, redisUrl: redis, prefix, concurrency } = options;
  const ledger = openLedger(dir);
  noteEffects((key, what) => ledger.note({ type: "effect", key, what, pid: process.pid, at: Date.now() }));
  const checkPulse = watchPulse(ledger.noteSilence);
  const checked = <T>(note: (what: T) => void): ((what: T) => void) => {
    return (what) => {
      checkPulse();
      note(what);
    };
  };
  const knows = (name: string): boolean => agents.some((agent) => agent.name === name);
  const drover = createDrover({
    redis,
    prefix,
    agents: agents.map((agent) =>
      chaosAgent(agent, {
        scripts: scriptsOf(agent, seed),
        ...{ seed, stubMs, isReal, knows, note: checked(ledger.note), onModelCall: checked(ledger.noteModelCall) },
      }),
    ),
    telemetry: createWitness(),
    logger: createLogger({ level: "error", destination: process.stderr }),
  });
  await workOnceRedisIsThere(drover, concurrency);
  process.send?.("ready");
  // Which a process that is killed would never do.
  flushCompileCache();
  await stop;
  await drover.close();
  process.disconnect();
}

/** A worker gives up when it finds no Redis as it starts, and is started again by whoever supervises it: here, at once. */
async function workOnceRedisIsThere(drover: Drover, concurrency: number): Promise<void> {
  for (;;) {
    try {
      await drover.work({ concurrency, graceMs });
      return;
    } catch (error) {
      if (!isOutage(error)) throw error;
      await sleep(200);
    }
  }
}
