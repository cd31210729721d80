import type { ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { listenForStop } from "../../src/cli/signals.ts";
import { endAllIn } from "./end-all-in.ts";

/** Processes that are ended with this program. */
const children = new Set<ChildProcess>();
let stopping = false;

/**
 * A folder for all that this program makes: its temporary folders and those of its children are in it. It goes with the
 * program, also if that is stopped by Ctrl-C or SIGTERM: then the children and whatever works in the folder are ended first.
 *
 * @param name of the folder, in front. Short: the path of a socket may have some 100 bytes.
 * @param stopped what is said when it was stopped.
 */
export function openScratch(name: string, stopped: string): string {
  const dir = mkdtempSync(join(tmpdir(), name));
  process.env.TMPDIR = dir;
  process.once("exit", () => remove(dir));
  const stop = listenForStop();
  void stop.requested.then(async () => {
    // Whoever talks to what is ended here fails, which is no news.
    process.on("uncaughtException", () => {});
    stopping = true;
    for (const child of children) endGroup(child);
    // Again, if a server was only starting and came to work in it later.
    for (let tries = 0; tries < 5 && existsSync(dir); tries += 1) {
      await endAllIn(dir);
      remove(dir);
    }
    console.error(stopped);
    process.exit(stop.exitCode());
  });
  return dir;
}

function remove(dir: string): void {
  try {
    rmSync(dir, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  } catch (error) {
    console.error(`${dir} could not be removed: ${String(error)}`);
  }
}

/** Whether this program was stopped and is about to end: nothing is to begin any more. */
export const isStopping = (): boolean => stopping;

/** It is ended with this program, and all of its group if it has one of its own. */
export function endWithUs<T extends ChildProcess>(child: T): T {
  children.add(child);
  if (stopping) endGroup(child);
  child.once("exit", () => children.delete(child));
  return child;
}

/** Ends a program and, in a group of its own, all that it started: those outlive one that is ended alone. */
export function endGroup(child: ChildProcess): void {
  child.kill("SIGKILL");
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch {
    // There is no such group, or nobody of it is left.
  }
}
