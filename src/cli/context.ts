import { join, relative } from "node:path";
import { type Config, loadConfig } from "../config.ts";
import { DroverError } from "../core/errors.ts";
import { createDrover, type Drover } from "../drover.ts";
import { findEmbeddedRedis } from "../embedded/redis.ts";
import { createLogger, createSilentLogger } from "../telemetry/logger.ts";
import type { Output } from "./output.ts";

/** What every command is given. */
export type Context = {
  /** Directory the command was called in; `.env` and `.drover/` are looked for here. */
  dir: string;
  output: Output;
  /** How this program is called, for hints that can be copied. */
  program: string;
  /** The settings, read when first asked for. Throws DroverError "invalid". */
  config(): Config;
};

export function createContext(dir: string, output: Output): Context {
  let config: Config | undefined;
  return {
    dir,
    output,
    program: toProgramName(dir),
    config() {
      config ??= loadConfig(dir);
      return config;
    },
  };
}

/** `drover` where it is installed; from a checkout, its Node and the file that was called. */
function toProgramName(dir: string): string {
  const script = process.argv[1];
  if (!script?.endsWith(".ts")) return "drover";
  const path = relative(dir, script);
  if (path.startsWith("..")) return `${process.execPath} ${script}`;
  // The Node of a checkout's packages is not the one a terminal finds.
  return process.execPath.startsWith(join(dir, "node_modules")) ? `npx node ${path}` : `node ${path}`;
}

/** Where the private Redis of a directory keeps its files. */
export function embeddedDir(context: Context): string {
  return join(context.dir, ".drover");
}

/**
 * The Redis to work on: REDIS_URL, else the private one that runs here.
 *
 * @throws DroverError "queue_unavailable" when there is neither.
 */
export async function findRedisUrl(context: Context): Promise<string> {
  const url = context.config().redisUrl ?? (await findEmbeddedRedis(embeddedDir(context)));
  if (url) return url;
  throw new DroverError(
    "queue_unavailable",
    "no Redis: REDIS_URL is not set and no private one runs in .drover/ here; set REDIS_URL, or run `drover dev` in this directory in another terminal",
  );
}

const silent = createSilentLogger();

/** Runs `fn` with a producer: a client that knows no agents and fails at once when Redis is away. */
export async function withDrover<T>(context: Context, fn: (drover: Drover) => Promise<T>): Promise<T> {
  const redis = await findRedisUrl(context);
  const { prefix, payloadLimitBytes, logLevel } = context.config();
  // What goes wrong is thrown and told once; log lines would tell it twice.
  const logger = logLevel === "debug" ? createLogger({ level: "debug", destination: process.stderr }) : silent;
  const drover = createDrover({ redis, prefix, payloadLimitBytes, logger });
  try {
    return await fn(drover);
  } finally {
    await drover.close();
  }
}
