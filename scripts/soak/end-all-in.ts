import { readdirSync, readlinkSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/** A server writes what it has before it ends. */
const patienceMs = 3_000;

/** Waits until no process works in a folder any more; those that do not end by themselves are ended, each by its id. */
export async function endAllIn(folder: string): Promise<void> {
  const until = performance.now() + patienceMs;
  while (workingIn(folder).length > 0 && performance.now() < until) await sleep(50);
  for (const pid of workingIn(folder)) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It is gone already.
    }
  }
  while (workingIn(folder).length > 0 && performance.now() < until + patienceMs) await sleep(50);
}

/** Processes whose working directory is in it, where the system tells (Linux). */
function workingIn(folder: string): number[] {
  return list("/proc")
    .filter((name) => /^\d+$/.test(name) && isIn(folder, name))
    .map(Number);
}

function isIn(folder: string, pid: string): boolean {
  try {
    return readlinkSync(`/proc/${pid}/cwd`).startsWith(`${folder}/`);
  } catch {
    return false;
  }
}

function list(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
