import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const patienceMs = 5_000;

/**
 * Ends all other processes that work in a folder or have their temporary folders in it, each by its id, and waits until
 * they are gone: what they write goes with it.
 */
export async function endAllIn(folder: string): Promise<void> {
  const until = performance.now() + patienceMs;
  for (let left = processesOf(folder); left.length > 0 && performance.now() < until; left = processesOf(folder)) {
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

/** Where the system tells (Linux). */
function processesOf(folder: string): number[] {
  return list("/proc")
    .filter((name) => /^\d+$/.test(name) && isIn(folder, name))
    .map(Number)
    .filter((pid) => pid !== process.pid);
}

function isIn(folder: string, pid: string): boolean {
  try {
    if (readlinkSync(`/proc/${pid}/cwd`).startsWith(`${folder}/`)) return true;
    const variables = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
    return variables.some((one) => one === `TMPDIR=${folder}` || one.startsWith(`TMPDIR=${folder}/`));
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
