import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import { act, type Exit } from "../command.ts";
import { type Context, findRedisUrl } from "../context.ts";
import { toDuration } from "../format/text.ts";
import { loadAgents } from "../load-agents.ts";
import { toInteger } from "../options.ts";
import { type RunningWorker, startWorker } from "../run-worker.ts";
import { listenForStop } from "../signals.ts";

type Options = { concurrency?: number; queues?: string };

/** `drover worker agents.ts`. */
export function registerWorker(program: Command, context: Context, exit: Exit): void {
  program
    .command("worker")
    .description("work on runs until SIGTERM or SIGINT; a second signal ends at once")
    .argument("<file>", "module that exports agents")
    .option("--concurrency <n>", "steps at a time (default: DROVER_CONCURRENCY)", toInteger(1, 10_000))
    .option("--queues <names>", "take only these queues, divided by commas")
    .action((file: string, options: Options) => act(context, exit, {}, () => work(context, file, options)));
}

async function work(context: Context, file: string, options: Options): Promise<number> {
  const stop = listenForStop();
  const agents = await loadAgents(file, context.dir);
  const starting = startWorker(context, {
    agents,
    redis: await findRedisUrl(context),
    concurrency: options.concurrency,
    queues: options.queues
      ?.split(",")
      .map((name) => name.trim())
      .filter((name) => name !== ""),
  });
  const worker = await Promise.race([starting, stop.requested.then(() => startedSoon(starting))]);
  // Nothing is in hand yet, and a Redis that does not answer must not hold the process up.
  if (!worker) return process.exit(0);
  context.output.line(`worker ${process.pid} ready | ${worker.description}`);
  await stop.requested;
  await stopWorker(context, worker);
  return 0;
}

/** How long a start that is told to stop may still take, so that it ends as one that has begun. */
const startingMs = 1_000;

function startedSoon(starting: Promise<RunningWorker>): Promise<RunningWorker | undefined> {
  return Promise.race([starting, sleep(startingMs, undefined, { ref: false })]);
}

/** Stops gracefully, telling how long that may take. */
export async function stopWorker(context: Context, worker: RunningWorker): Promise<void> {
  const grace = toDuration(context.config().stopGraceMs);
  context.output.note(`stopping: steps have ${grace} to finish; the same signal again ends at once`);
  await worker.stop();
}
