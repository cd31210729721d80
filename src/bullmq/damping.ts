import { createRarely } from "../core/rarely.ts";
import type { Logger } from "../ports.ts";
import { isLockLost } from "./lost-locks.ts";

const firstPauseMs = 250;
const longestPauseMs = 5_000;
/** Trouble that stays away this long starts over with the first pause. */
const calmMs = 30_000;

/** A log for errors that may come thousands of times a second: one line per kind of trouble and time, with a count. */
export type TroubleLog = (error: unknown, fields: Record<string, unknown>, message: string) => void;

export function createTroubleLog(logger: Logger): TroubleLog {
  const rarely = createRarely(() => performance.now());
  return (error, fields, message) =>
    rarely(`${message} ${kindOf(error)}`, (repeats) =>
      logger.warn({ ...fields, error: messageOf(error), ...repeats }, message),
    );
}

/** The message alone: the client's errors carry whole commands, user data included. */
export function messageOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).slice(0, 300);
}

function kindOf(error: unknown): string {
  // BullMQ tries once more, and the refusal may name another reason by then.
  if (isLockLost(error)) return "lock lost";
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  if (typeof code === "string") return code;
  const message = messageOf(error);
  // Ids of steps hold digits: the same trouble of a thousand steps is one kind.
  return /^[A-Z]{3,}/.exec(message)?.[0] ?? message.replace(/\S*\d\S*/g, "#").slice(0, 40);
}

/**
 * BullMQ retries most refusals of Redis (READONLY, OOM, NOAUTH, LOADING) without a wait, tens of thousands of times in
 * ten seconds. Each one pauses fetching instead, longer each time; steps in hand go on.
 */
export type Damper = { trouble(): void; stop(): void };

export function createDamper(worker: { pause(): void; resume(): void }): Damper {
  let timer: NodeJS.Timeout | undefined;
  let streak = 0;
  let lastAt = Number.NEGATIVE_INFINITY;
  let stopped = false;
  return {
    trouble() {
      if (stopped || timer) return;
      const now = performance.now();
      streak = now - lastAt > calmMs ? 1 : streak + 1;
      lastAt = now;
      worker.pause();
      const pauseMs = Math.min(firstPauseMs * 2 ** (streak - 1), longestPauseMs);
      timer = setTimeout(
        () => {
          timer = undefined;
          worker.resume();
        },
        pauseMs * (0.8 + 0.4 * Math.random()), // not all workers at the same moment
      );
    },
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
