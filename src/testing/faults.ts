import { wrapPort } from "./wrap-port.ts";

/**
 * Where a process dies: at its n-th call of a port (from 1), before or after the call took effect. `lost`: without
 * effect, while calls that were already on their way with it still take theirs.
 */
export type CrashPoint = { call: number; when: "before" | "after" | "lost" };

/** What a dead process's ports answer. */
export class Crashed extends Error {
  override readonly name: string = "Crashed";
}

export type Faults = {
  /** Counts and, once dead, refuses every call of a port's methods. */
  wrap<T extends object>(name: string, port: T): T;
  /** Calls made so far, as `port.method`. */
  readonly calls: readonly string[];
  dead(): boolean;
};

/**
 * Lets a process die at one point: `createFaults(crashAt(5, "after"))` fails the fifth call of any wrapped port after it
 * took effect, and all later ones without any. Without a point it only counts.
 */
export function createFaults(point?: CrashPoint): Faults {
  const calls: string[] = [];
  let dead = false;

  async function guarded(label: string, call: () => unknown): Promise<unknown> {
    if (dead) throw new Crashed("this process is dead");
    calls.push(label);
    const here = point?.call === calls.length;
    if (here && point.when === "before") {
      dead = true;
      throw new Crashed(`died before ${label}`);
    }
    if (here && point.when === "lost") {
      setImmediate(() => {
        dead = true;
      });
      throw new Crashed(`lost ${label}`);
    }
    const result = await call();
    if (here) {
      dead = true;
      throw new Crashed(`died after ${label}`);
    }
    return result;
  }

  return {
    calls,
    dead: () => dead,
    wrap: (name, port) => wrapPort(name, port, guarded),
  };
}

export function crashAt(call: number, when: CrashPoint["when"]): CrashPoint {
  return { call, when };
}
