import { readdirSync, readlinkSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const patienceMs = 5_000;

/** Ends all processes that work in a folder, each by its id, and waits until they are gone: what they write goes with it. */
export async function endAllIn(folder: string): Promise<void> {
  const until = performance.now() + patienceMs;
  for (let left = workingIn(folder); left.length > 0 && performance.now() < until; left = workingIn(folder)) {
    for (const pid of left) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It is gone already.
      }
    }
    await sleep(20);
  }
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
