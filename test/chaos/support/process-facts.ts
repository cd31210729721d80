import { readFileSync } from "node:fs";
import type { WorkerProcess } from "../../support/worker-process.ts";

/** The kernel counts time in hundredths of a second. */
const ticksPerSecond = 100;

/** How long a process has had a core by now, in ms. */
function cpuMsOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const [, , , , , , , , , , , user = "0", system = "0"] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return ((Number(user) + Number(system)) * 1_000) / ticksPerSecond;
}

/** Measures what workers do from now on: the returned function gives each one's share of a core and its log lines. */
export function observe(
  workers: readonly WorkerProcess[],
): () => { cpuShare: number; logLines: number; seconds: number }[] {
  const since = performance.now();
  const before = workers.map((worker) => ({ worker, cpuMs: cpuMsOf(worker.pid), lines: worker.logLines().length }));
  return () => {
    const ms = performance.now() - since;
    return before.map(({ worker, cpuMs, lines }) => ({
      cpuShare: (cpuMsOf(worker.pid) - cpuMs) / ms,
      logLines: worker.logLines().length - lines,
      seconds: ms / 1_000,
    }));
  };
}
