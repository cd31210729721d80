import { randomUUID } from "node:crypto";
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { DroverError } from "../core/errors.ts";
import { isAlive } from "./probe.ts";

/**
 * Runs `fn` while this process alone holds the lock file. A lock whose process is gone is taken over.
 *
 * @throws DroverError "timeout" when another process holds it for longer than `timeoutMs`.
 */
export async function withFileLock<T>(path: string, timeoutMs: number, fn: () => Promise<T>): Promise<T> {
  const mine = `${process.pid} ${randomUUID()}`;
  const until = performance.now() + timeoutMs;
  while (!take(path, mine)) {
    if (performance.now() > until) {
      throw new DroverError("timeout", `another process holds ${path}: wait for it, or remove the file if none runs`);
    }
    await sleep(25);
  }
  try {
    return await fn();
  } finally {
    if (read(path) === mine) rmSync(path, { force: true });
  }
}

function take(path: string, mine: string): boolean {
  try {
    writeFileSync(path, mine, { flag: "wx" });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
  const holder = read(path);
  // An empty file is one just created, about to be written by its holder.
  if (holder && !isAlive(Number.parseInt(holder, 10))) breakStale(path, holder);
  return false;
}

/** Moves the stale file away; if somebody was faster and it is a live one by now, puts that back. */
function breakStale(path: string, stale: string): void {
  const aside = `${path}.${randomUUID()}`;
  try {
    renameSync(path, aside);
    if (read(aside) !== stale) linkSync(aside, path);
  } catch {
    // Another process did it first.
  } finally {
    rmSync(aside, { force: true });
  }
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
