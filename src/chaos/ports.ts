import { z } from "zod";
import { DroverError } from "../core/errors.ts";
import { Crashed } from "../testing/faults.ts";
import { wrapPort } from "../testing/wrap-port.ts";

/**
 * What happens at a call of a port.
 * - `kill_before`, `kill_after`: the process dies before, or right after, the call took effect;
 * - `kill_in_flight`: it dies without that call, while calls that were on their way already still take effect;
 * - `reply_lost`: the call takes effect and its caller is told that Redis cannot be reached;
 * - `sent_twice`: the client sends it again, because the reply to the first was lost;
 * - `refused`: Redis cannot be reached;
 * - `pause_before`, `pause_after`: the process is frozen there, others take its work over, and it wakes in the middle of that.
 */
export const pointFaults = [
  "kill_before",
  "kill_after",
  "kill_in_flight",
  "reply_lost",
  "sent_twice",
  "refused",
  "pause_before",
  "pause_after",
] as const;
export type PointFaultKind = (typeof pointFaults)[number];

/** `call`: which call of any port it is, from 1. `forSteps`: a frozen process wakes after so many steps of others; default: when nothing else is left to do. */
export type PointFault = { call: number; fault: PointFaultKind; forSteps?: number | undefined };
export const pointFaultSchema: z.ZodType<PointFault> = z.strictObject({
  call: z.int().min(1),
  fault: z.enum(pointFaults),
  forSteps: z.int().min(0).optional(),
});

/** Which of them make sense at a port: a model and a tool are not reached through Redis. */
export function faultsAt(label: string): readonly PointFaultKind[] {
  const outside = label.startsWith("model.") || label.startsWith("tools.");
  return outside ? ["kill_before", "kill_after", "pause_before", "pause_after"] : pointFaults;
}

/** One process's end of the ports: it can die and be frozen. */
export type Life = {
  wrap<T extends object>(name: string, port: T): T;
  state(): "alive" | "dead" | "paused";
  /** Resolves when it dies or is frozen, after it was woken once more. */
  stopped(): Promise<void>;
  /** After so many steps of others it wakes. */
  forSteps: number;
  /** Wakes a frozen process. */
  resume(): void;
};

export type FaultyPorts = {
  /** A process of its own; calls are counted over all. */
  begin(): Life;
  /** Calls made so far, as `port.method`. */
  readonly calls: readonly string[];
  /** Faults that came about so far. */
  readonly happened: readonly PointFaultKind[];
};

const away = (label: string): DroverError =>
  new DroverError("queue_unavailable", `Redis cannot be reached (${label}): a fault of drover chaos.`);

type Call = () => Promise<unknown>;
/** What a fault may do to a process. */
type Grip = { die(why: string): never; dieSoon(): void; freeze(forSteps: number): Promise<void> };

async function strike({ fault, forSteps }: PointFault, label: string, call: Call, grip: Grip): Promise<unknown> {
  switch (fault) {
    case "kill_before":
      return grip.die(`died before ${label}`);
    case "kill_after":
      await call();
      return grip.die(`died after ${label}`);
    case "kill_in_flight":
      grip.dieSoon();
      throw new Crashed(`died with ${label} on its way`);
    case "reply_lost":
      await call();
      throw away(label);
    case "sent_twice":
      await call();
      return call();
    case "refused":
      throw away(label);
    case "pause_before":
      await grip.freeze(forSteps ?? Number.POSITIVE_INFINITY);
      return call();
    case "pause_after": {
      const result = await call();
      await grip.freeze(forSteps ?? Number.POSITIVE_INFINITY);
      return result;
    }
  }
}

/** Ports of processes to which the faults of a schedule happen. */
export function createFaultyPorts(schedule: readonly PointFault[]): FaultyPorts {
  const faults = new Map(schedule.map((fault) => [fault.call, fault]));
  const calls: string[] = [];
  const happened: PointFaultKind[] = [];
  const next = (label: string): PointFault | undefined => {
    calls.push(label);
    const fault = faults.get(calls.length);
    if (!fault || !faultsAt(label).includes(fault.fault)) return undefined;
    happened.push(fault.fault);
    return fault;
  };
  return { begin: () => createLife(next), calls, happened };
}

/** @param next counts a call, and gives what happens at it. */
function createLife(next: (label: string) => PointFault | undefined): Life {
  let stopped = Promise.withResolvers<void>();
  let dead = false;
  let frozen: PromiseWithResolvers<void> | undefined;
  const end = (): void => {
    dead = true;
    stopped.resolve();
  };
  const grip: Grip = {
    die(why) {
      end();
      throw new Crashed(why);
    },
    dieSoon: () => void setImmediate(end),
    async freeze(forSteps) {
      frozen ??= Promise.withResolvers();
      life.forSteps = forSteps;
      stopped.resolve();
      await frozen.promise;
    },
  };
  async function guarded(label: string, call: Call): Promise<unknown> {
    while (frozen) await frozen.promise;
    if (dead) throw new Crashed("this process is dead");
    const fault = next(label);
    return fault ? strike(fault, label, call, grip) : call();
  }
  const life: Life = {
    stopped: () => stopped.promise,
    forSteps: 0,
    state: () => {
      if (dead) return "dead";
      return frozen ? "paused" : "alive";
    },
    resume() {
      const waiting = frozen;
      frozen = undefined;
      stopped = Promise.withResolvers();
      waiting?.resolve();
    },
    wrap: (name, port) => wrapPort(name, port, guarded),
  };
  return life;
}
