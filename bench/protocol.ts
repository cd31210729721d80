import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { endWithUs } from "../scripts/scratch/scratch.ts";

/** What a bench worker is asked: so many runs at once, each of so many steps; `tool` is the kind of effect. */
export type Task = { runs: number; steps: number; tool: "read" | "write" };

/** What it answers. Times in ms. `gaps`: from the start of one step's work to the next one's, of the first run. */
export type Outcome = { elapsedMs: number; cpuMs: number; gaps: number[] };

export type BenchWorker = { measure(task: Task): Promise<Outcome>; stop(): Promise<void> };

/** Starts a worker process. `name`: a file beside this one; `args`: what it takes after the URL; `env`: added to ours. */
export async function startBenchWorker(
  name: string,
  redisUrl: string,
  { args = [], env = {} }: { args?: string[]; env?: Record<string, string> } = {},
): Promise<BenchWorker> {
  const file = fileURLToPath(new URL(name, import.meta.url));
  const child = fork(file, [redisUrl, ...args], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
    env: { ...process.env, ...env },
  });
  endWithUs(child);
  const answers: ((answer: Outcome | Error) => void)[] = [];
  child.on("message", (answer: Outcome) => answers.shift()?.(answer));
  const exited = once(child, "exit").then(() => {
    for (const answer of answers.splice(0)) answer(new Error(`${name} ended`));
  });
  const next = (): Promise<Outcome> =>
    new Promise((resolve, reject) => {
      answers.push((answer) => (answer instanceof Error ? reject(answer) : resolve(answer)));
    });
  await next();
  return {
    measure(task) {
      const answer = next();
      child.send(task);
      return answer;
    },
    async stop() {
      child.disconnect();
      await exited;
    },
  };
}

/** The worker's side: says that it is ready, answers tasks, ends when its parent goes. */
export function serve(measure: (task: Task) => Promise<Outcome>, close: () => Promise<void>): void {
  process.on("message", (task: Task) => {
    measure(task).then(
      (outcome) => process.send?.(outcome),
      (error: unknown) => {
        process.stderr.write(`${String(error)}\n`);
        process.exit(1);
      },
    );
  });
  process.on("disconnect", () => void close().then(() => process.exit(0)));
  process.send?.("ready");
}

export function cpuMsSince(start: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1_000;
}
