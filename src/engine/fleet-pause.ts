// Pausing the whole fleet: a switch in Redis that every worker knows of. Not BullMQ's own pause of a queue: that would have
// to be set on every queue of every shard, also on those that come into being later, and its jobs count as waiting.
//
// P1. Who pauses is answered when every worker that is there has said that it takes no step any more.
// P2. A worker looks at the switch before it takes its first step, at every announcement, every two seconds, and before a
//     step that comes while it cannot be sure to have heard.
// P3. The switch outlives every process; nobody has to be started anew after it.

import { z } from "zod";
import { DroverError, toError } from "../core/errors.ts";
import type { Redactor } from "../core/redact.ts";
import type { Pause } from "../core/run.ts";
import type { Clock, FleetSwitch, Logger, Presence, Signals } from "../ports.ts";
import { quietly } from "./quietly.ts";

/** What is announced in place of a run's id, which holds no colon. */
const fleetWord = ":fleet";

/** Who pauses the fleet and why; `waitMs`: how long workers are waited for, default 5,000. */
export type PauseAllOptions = {
  by?: string | undefined;
  reason?: string | undefined;
  waitMs?: number | undefined;
};
/**
 * - `applied`: false if it was paused before, by whom and when these fields say;
 * - `workers`: processes that are there; `taking`: those that have not said yet that they take no more steps.
 */
export type PausedFleet = Pause & { applied: boolean; workers: number; taking: number };

type CommandDeps = {
  fleetSwitch: FleetSwitch;
  signals: Pick<Signals, "announce">;
  presence: Pick<Presence, "workers">;
  clock: Pick<Clock, "now" | "sleep">;
  logger: Logger;
  redactor: Redactor;
};

const optionsSchema = z.strictObject({
  by: z.string().min(1).max(1_000).default("unknown"),
  reason: z.string().max(10_000).default("no reason given"),
  waitMs: z.int().min(0).max(600_000).default(5_000),
});

const lookAgainMs = 50;

/** @throws DroverError "invalid" naming the field */
export async function pauseFleet(deps: CommandDeps, options: PauseAllOptions = {}): Promise<PausedFleet> {
  const { by, reason, waitMs } = parse(options);
  const asked = { by, reason: deps.redactor.text(reason), at: deps.clock.now() };
  const { pause, applied } = await deps.fleetSwitch.pause(asked);
  await announce(deps);
  const until = performance.now() + waitMs;
  for (;;) {
    const workers = await deps.presence.workers();
    const taking = workers.filter(({ paused }) => !paused).length;
    if (taking === 0 || performance.now() >= until) return { ...pause, applied, workers: workers.length, taking };
    await deps.clock.sleep(lookAgainMs);
  }
}

/** @returns false if it was not paused */
export async function resumeFleet(deps: Omit<CommandDeps, "presence" | "redactor" | "clock">): Promise<boolean> {
  const applied = await deps.fleetSwitch.resume();
  await announce(deps);
  return applied;
}

function parse(options: PauseAllOptions): z.output<typeof optionsSchema> {
  const defined = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  const parsed = optionsSchema.safeParse(defined);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(({ path, message }) => `${path.join(".") || "options"}: ${message}`);
  throw new DroverError("invalid", `The fleet was not paused: ${problems.join("; ")}.`);
}

/** Whoever does not hear looks by itself soon. */
async function announce({ signals, logger }: Pick<CommandDeps, "signals" | "logger">): Promise<void> {
  await quietly(logger, {}, "a change of the fleet's pause could not be announced", () => signals.announce(fleetWord));
}

export type WatchOptions = {
  fleetSwitch: Pick<FleetSwitch, "read">;
  signals: Pick<Signals, "onAnnounced" | "isHearing">;
  logger: Logger;
  /** Told when it was paused or resumed. */
  onChange: (pause: Pause | undefined) => void;
};

/** What a worker knows of the switch. */
export type FleetPauseWatch = {
  isPaused(): boolean;
  /** Whether a step may begin: true at once while it is known that nothing was missed. Never rejects. */
  mayStart(): true | Promise<boolean>;
  stop(): void;
};

const lookEveryMs = 2_000;
/** Older knowledge, of a process that was stopped for a while say, does not count. */
const freshMs = 5_000;

/** Resolves once the switch was read for the first time. @throws what reading it threw */
export async function watchFleetPause(options: WatchOptions): Promise<FleetPauseWatch> {
  const { fleetSwitch, signals, logger, onChange } = options;
  let known: Pause | undefined;
  let lookedAt = Number.NEGATIVE_INFINITY;
  let looking: Promise<void> | undefined;
  let asked = 0;

  async function look(): Promise<void> {
    const beganAt = performance.now();
    const pause = await fleetSwitch.read();
    lookedAt = beganAt;
    const isChange = (pause === undefined) !== (known === undefined);
    known = pause;
    if (isChange) onChange(pause);
  }

  /** What was read before it was asked for does not answer it. */
  async function lookAnew(): Promise<void> {
    const own = ++asked;
    await looking?.catch(() => {});
    if (looking === undefined || own === asked) {
      const mine = look().finally(() => {
        if (looking === mine) looking = undefined;
      });
      looking = mine;
    }
    await looking;
  }

  const lookQuietly = (): Promise<boolean> =>
    lookAnew().then(
      () => true,
      (error: unknown) => {
        logger.debug({ error: toError(error).message }, "whether the fleet is paused could not be read");
        return false;
      },
    );
  const stopListening = signals.onAnnounced((word) => {
    if (word === null || word === fleetWord) void lookQuietly();
  });
  const timer = setInterval(() => void lookQuietly(), lookEveryMs).unref();
  const stop = (): void => {
    stopListening();
    clearInterval(timer);
  };
  try {
    await look();
  } catch (error) {
    stop();
    throw error;
  }
  return {
    isPaused: () => known !== undefined,
    mayStart() {
      const isFresh = signals.isHearing() && performance.now() - lookedAt < freshMs;
      if (isFresh) return known === undefined || Promise.resolve(false);
      return lookQuietly().then((done) => done && known === undefined);
    },
    stop,
  };
}
