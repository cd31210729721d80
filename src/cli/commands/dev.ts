import { existsSync } from "node:fs";
import { join, relative } from "node:path";
import type { Command } from "commander";
import type { Agent } from "../../define-agent.ts";
import { startEmbeddedRedis } from "../../embedded/redis.ts";
import { hidePassword } from "../../hide-password.ts";
import { act, type Exit } from "../command.ts";
import { type Context, embeddedDir } from "../context.ts";
import { loadAgents } from "../load-agents.ts";
import { toInteger } from "../options.ts";
import { startWorker } from "../run-worker.ts";
import { listenForStop } from "../signals.ts";
import { stopWorker } from "./worker.ts";

type Options = { concurrency?: number };

const defaultFile = "agents.ts";

/** `drover dev [agents.ts]`. */
export function registerDev(program: Command, context: Context, exit: Exit): void {
  program
    .command("dev")
    .description("a private Redis if none is configured, and a worker, in this terminal")
    .argument("[file]", `module that exports agents (default: ${defaultFile} if there is one, else a built-in agent)`)
    .option("--concurrency <n>", "steps at a time (default: DROVER_CONCURRENCY)", toInteger(1, 10_000))
    .action((file: string | undefined, options: Options) => act(context, exit, {}, () => dev(context, file, options)));
}

async function dev(context: Context, file: string | undefined, options: Options): Promise<number> {
  const { output } = context;
  const stop = listenForStop();
  const agents = await chooseAgents(context, file);
  const redis = await openRedis(context);
  try {
    const worker = await startWorker(context, { agents, redis: redis.url, concurrency: options.concurrency });
    output.line(`worker ${process.pid} ready | ${worker.description}`);
    for (const line of toHints(context, agents)) output.line(line);
    await stop.requested;
    await stopWorker(context, worker);
    return 0;
  } finally {
    await redis.stop();
  }
}

async function chooseAgents(context: Context, file: string | undefined): Promise<Agent[]> {
  if (file !== undefined) return loadAgents(file, context.dir);
  if (existsSync(join(context.dir, defaultFile))) return loadAgents(defaultFile, context.dir);
  // It brings the model client, which other commands start faster without.
  const { createAssistant } = await import("../demo/assistant.ts");
  const { agent, about } = createAssistant(context.config());
  context.output.note(`no ${defaultFile} here: using the built-in agent "${agent.name}" with ${about}`);
  return [agent];
}

async function openRedis(context: Context): Promise<{ url: string; stop(): Promise<void> }> {
  const { output } = context;
  const { redisUrl } = context.config();
  if (redisUrl) return { url: redisUrl, stop: async () => {} };
  const dir = embeddedDir(context);
  const redis = await startEmbeddedRedis({ dir, log: output.note });
  const where = relative(context.dir, dir);
  output.line(
    `private Redis ${hidePassword(redis.url)} (data in ${where}/redis, ${redis.owned ? "ends with this process" : "of another process here"})`,
  );
  return redis;
}

function toHints(context: Context, agents: Agent[]): string[] {
  const name = agents[0]?.name ?? "AGENT";
  const call = context.program;
  return [
    "",
    "In another terminal, in this directory:",
    `  ${call} start ${name} "What is 12 * (3 + 4)?" --watch`,
    `  ${call} list`,
    `  ${call} show ID      (or watch ID, cancel ID; ${call} --help)`,
    "Ctrl-C stops the worker; runs stay and go on with the next one.",
  ];
}
