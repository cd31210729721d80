import { setTimeout as delay } from "node:timers/promises";
import type { Clock, Logger } from "../ports.ts";
import { createDampedWarning, type RedisConnection } from "./connection.ts";
import { readTime } from "./nodes.ts";
import { redisErrorCode } from "./redis-error.ts";

export type RedisClockOptions = {
  connection: RedisConnection;
  logger?: Logger | undefined;
  /** How often Redis is asked, in ms; default 10,000. */
  refreshMs?: number | undefined;
  /** This process's steady time in ms; default `performance.now()`. */
  steady?: (() => number) | undefined;
};

export type RedisClock = Clock & {
  /** Resolves once Redis has told its time. Until then `now()` is this machine's. */
  ready(): Promise<void>;
  /** Asks Redis for its time. */
  refresh(): Promise<void>;
  /** Asks no more. */
  stop(): void;
};

const defaultRefreshMs = 10_000;
/** An answer that took longer says too little about the time. */
const maxRoundTripMs = 1_000;
/** Up to here a clock that is ahead waits for Redis's at half speed; a larger difference is another server's time. */
const maxSlewMs = 5_000;
const slewRate = 0.5;
const longestTimerMs = 2 ** 31 - 1;

/**
 * Redis's time, carried on between two answers by a steady clock, so that a step of this machine's clock does not move
 * it. It does not run backwards, but for a jump of Redis's own by more than 5 s.
 */
export function createRedisClock(options: RedisClockOptions): RedisClock {
  const steady = options.steady ?? (() => performance.now());
  /** What is added to the steady clock, as used and as last measured. */
  let offset = Date.now() - steady();
  let measured = offset;
  let lastSteady = steady();
  let asked = false;

  async function refresh(): Promise<void> {
    const sent = steady();
    const told = await options.connection.use(readTime);
    const received = steady();
    if (asked && received - sent > maxRoundTripMs) return;
    now();
    measured = told - (sent + received) / 2;
    if (!asked || offset - measured > maxSlewMs) offset = measured;
    asked = true;
  }

  function now(): number {
    const at = steady();
    const passed = at - lastSteady;
    lastSteady = at;
    offset = offset > measured ? Math.max(measured, offset - passed * slewRate) : measured;
    return Math.floor(at + offset);
  }

  const warn = createDampedWarning(options.logger);
  const refreshQuietly = (): void => {
    refresh().catch((error: unknown) => {
      // The steady clock carries on meanwhile.
      const code = redisErrorCode(error);
      if (!stopped) warn(code, { code }, "Redis did not tell its time");
    });
  };
  let stopped = false;
  const timer = setInterval(refreshQuietly, options.refreshMs ?? defaultRefreshMs);
  timer.unref();

  return {
    now,
    ready: async () => {
      if (!asked) await refresh();
    },
    refresh,
    stop() {
      stopped = true;
      clearInterval(timer);
    },
    async sleep(ms, signal) {
      const until = steady() + ms;
      for (let left = ms; left > 0 && !signal?.aborted; left = until - steady()) {
        await delay(Math.min(left, longestTimerMs), undefined, signal ? { signal } : {}).catch(() => {});
      }
    },
  };
}
