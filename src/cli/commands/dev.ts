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
import { type RunningServer, startServer } from "../run-server.ts";
import { startWorker } from "../run-worker.ts";
import { listenForStop } from "../signals.ts";
import { stopWorker } from "./worker.ts";

type Options = { concurrency?: number; port?: number };

/** Of a computer where several projects run. */
const sparePorts = 20;

const defaultFile = "agents.ts";

/** `drover dev [agents.ts]`. */
export function registerDev(program: Command, context: Context, exit: Exit): void {
  program
    .command("dev")
    .description("a private Redis if none is configured, a worker and the pages, in this terminal")
    .argument("[file]", `module that exports agents (default: ${defaultFile} if there is one, else a built-in agent)`)
    .option("--concurrency <n>", "steps at a time (default: DROVER_CONCURRENCY)", toInteger(1, 10_000))
    .option(
      "--port <port>",
      "port of the pages (default: DROVER_HTTP_PORT, or the next that is free)",
      toInteger(0, 65_535),
    )
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
    const server = await startPages(context, redis.url, options).catch(async (error: unknown) => {
      await worker.stop();
      throw error;
    });
    output.line(`pages ${server.url} | ${server.description}`);
    for (const line of toHints(context, agents)) output.line(line);
    await stop.requested;
    await Promise.all([server.stop(), stopWorker(context, worker)]);
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

/** On loopback, whatever DROVER_HTTP_HOST says. Another one may be at work here, so that the next free port will do. */
async function startPages(context: Context, redis: string, { port }: Options): Promise<RunningServer> {
  const wanted = port ?? context.config().httpPort;
  const spare = port === undefined && wanted > 0 ? sparePorts : 0;
  const server = await startServer(context, { redis, host: "127.0.0.1", port: wanted, spare });
  const taken = new URL(server.url).port;
  if (spare > 0 && taken !== String(wanted)) context.output.note(`port ${wanted} is in use: the pages are on ${taken}`);
  return server;
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
