import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { z } from "zod";
import { atMost } from "./at-most.ts";
import { toError } from "./core/errors.ts";
import type { OperatorLimits } from "./core/fleet-limits.ts";
import { knownGates } from "./engine/known-gates.ts";
import type { AgentCode, AgentRegistry, Clock, KnownAgent, Logger, Presence, WorkerPresence } from "./ports.ts";

/** How often a worker tells of itself, and how long it counts as there after that. */
const tellEveryMs = 5_000;
const ttlMs = 15_000;
/** A worker that starts or stops does not wait longer than this for Redis to hear it. */
const heardWithinMs = 1_000;

export type PresenceOptions = {
  presence: Presence;
  clock: Pick<Clock, "now">;
  logger: Logger;
  agents: AgentRegistry;
  /** The agents that the worker has, by name, and the queues that their tools name. */
  served: ReadonlyMap<string, readonly string[]>;
  limits?: OperatorLimits | undefined;
  worker: Pick<WorkerPresence, "id" | "queues" | "concurrency">;
  running: () => number;
  isPaused: () => boolean;
};

/** Tells the fleet of this worker until it stops. Nothing here rejects or holds the process: work does not depend on it. */
export function startPresence(options: PresenceOptions): {
  /** Resolves when the fleet has heard of it, or after a second. */
  told(): Promise<void>;
  tellAgain(): Promise<void>;
  stop(): Promise<void>;
} {
  const { presence, clock, logger, served } = options;
  const startedAt = clock.now();
  const names = [...served.keys()];
  const codes = names.flatMap((name) => options.agents.get(name) ?? []);
  const fixed = { host: hostname(), pid: process.pid, version: droverVersion(), startedAt, agents: names };
  let telling: Promise<void> | undefined;
  let isFailing = false;

  async function tell(): Promise<void> {
    try {
      const seenAt = clock.now();
      const worker = {
        ...options.worker,
        ...fixed,
        seenAt,
        running: options.running(),
        ...(options.isPaused() ? { paused: true } : {}),
      };
      const agents = codes.map((code) => toKnownAgent(code, served.get(code.definition.name), seenAt));
      await presence.tell(worker, agents, knownGates(codes, options.limits), ttlMs);
      isFailing = false;
    } catch (error) {
      if (!isFailing)
        logger.warn({ error: toError(error).message }, "this worker could not tell the fleet that it is here");
      isFailing = true;
    }
  }

  /** One at a time: while Redis is away the first one waits for it. */
  function tellUnlessTelling(): void {
    telling ??= tell().finally(() => {
      telling = undefined;
    });
  }

  tellUnlessTelling();
  const timer = setInterval(tellUnlessTelling, tellEveryMs).unref();
  return {
    told: () => heard(telling),
    /** What is being told may be from before. */
    async tellAgain() {
      await telling;
      tellUnlessTelling();
      await telling;
    },
    async stop() {
      clearInterval(timer);
      // After a telling that is under way, or it would be there again.
      await heard(Promise.resolve(telling).then(() => presence.leave(options.worker.id)));
    },
  };
}

/** Waits for what Redis is asked to hear. Never rejects. */
async function heard(hearing: Promise<void> = Promise.resolve()): Promise<void> {
  await atMost(heardWithinMs, hearing).catch(() => {});
}

/** @param queues those that the agent's tools name. */
export function toKnownAgent(
  { definition }: AgentCode,
  queues: readonly string[] | undefined,
  seenAt: number,
): KnownAgent {
  const { name, model, tools, version, output } = definition;
  return { name, model, tools: tools.map((tool) => tool.name), version, queues: [...(queues ?? [])], output, seenAt };
}

const packageSchema = z.object({ version: z.string() });

/** Of this package. The same path from `src/` and from `dist/`. */
export function droverVersion(): string {
  const text = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  return packageSchema.parse(JSON.parse(text)).version;
}
