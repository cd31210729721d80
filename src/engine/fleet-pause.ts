// Pausing the whole fleet: a switch in Redis that every worker knows of. Not BullMQ's own pause of a queue: that would have
// to be set on every queue of every shard, also on those that come into being later, and its jobs count as waiting.
//
// P1. Who pauses is answered when every worker that is there has said that it takes no step any more.
// P2. A worker looks at the switch before it takes its first step, at every announcement, every two seconds, and before a
//     step that comes while it cannot be sure to have heard.
// P3. The switch outlives every process; nobody has to be started anew after it.

import { DroverError, toError } from "../core/errors.ts";
import { type PauseAllOptions, problemsOfPauseAll } from "../core/fleet-pause.ts";
import type { Redactor } from "../core/redact.ts";
import type { Pause } from "../core/run.ts";
import type { Clock, FleetSwitch, Logger, Presence, Signals } from "../ports.ts";
import { quietly } from "./quietly.ts";

/** What is announced in place of a run's id, which holds no colon. */
const fleetWord = ":fleet";

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

const lookAgainMs = 50;

/** @throws DroverError "invalid" naming the field */
export async function pauseFleet(deps: CommandDeps, options: PauseAllOptions = {}): Promise<PausedFleet> {
  const problems = problemsOfPauseAll(options);
  if (problems.length > 0) throw new DroverError("invalid", `The fleet was not paused: ${problems.join("; ")}.`);
  const { by = "unknown", reason = "no reason given", waitMs = 5_000 } = options;
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
  const { signals, logger } = options;
  const looker = createLooker(options);
  const lookQuietly = (): Promise<boolean> =>
    looker.look().then(
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
    await looker.look();
  } catch (error) {
    stop();
    throw error;
  }
  return {
    isPaused: looker.isPaused,
    mayStart() {
      if (signals.isHearing() && looker.ageMs() < freshMs) return !looker.isPaused() || Promise.resolve(false);
      return lookQuietly().then((done) => done && !looker.isPaused());
    },
    stop,
  };
}

type Looker = {
  /** Reads the switch, beginning not before now. */
  look(): Promise<void>;
  isPaused(): boolean;
  /** How long ago it was read that way. */
  ageMs(): number;
};

/** One read at a time; who asks during one gets the next, and so does everybody else who asks during it. */
function createLooker({ fleetSwitch, onChange }: Pick<WatchOptions, "fleetSwitch" | "onChange">): Looker {
  let known: Pause | undefined;
  let lookedAt = Number.NEGATIVE_INFINITY;
  let current: Promise<void> | undefined;
  let next: Promise<void> | undefined;

  async function read(): Promise<void> {
    const beganAt = performance.now();
    const pause = await fleetSwitch.read();
    lookedAt = beganAt;
    const isChange = (pause === undefined) !== (known === undefined);
    known = pause;
    if (isChange) onChange(pause);
  }

  function begin(): Promise<void> {
    next = undefined;
    const own = read().finally(() => {
      if (current === own) current = undefined;
    });
    current = own;
    return own;
  }

  return {
    look() {
      if (!current) return begin();
      next ??= current.then(begin, begin);
      return next;
    },
    isPaused: () => known !== undefined,
    ageMs: () => performance.now() - lookedAt,
  };
}
