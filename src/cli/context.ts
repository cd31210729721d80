import { join, relative } from "node:path";
import { type Config, loadConfig } from "../config.ts";
import { DroverError } from "../core/errors.ts";
import { createRedactor, type Redactor } from "../core/redact.ts";
import { createDrover, type Drover } from "../drover.ts";
import { findEmbeddedRedis } from "../embedded/redis.ts";
import { secretsOfEnvironment } from "../redaction/known.ts";
import { type RedactionOptions, toRedaction } from "../redaction/redaction.ts";
import { createLogger, createSilentLogger } from "../telemetry/logger.ts";
import { createOutput, type Output } from "./output.ts";

/** What every command is given. */
export type Context = {
  /** Directory the command was called in; `.env` and `.drover/` are looked for here. */
  dir: string;
  output: Output;
  /** How this program is called, for hints that can be copied. */
  program: string;
  /** The settings, read when first asked for. Throws DroverError "invalid". */
  config(): Config;
  /** For what is cut before it is printed: a secret that was cut in two is not known any more. */
  redactor(): Redactor;
};

export function createContext(dir: string): Context {
  let config: Config | undefined;
  let redactor: Redactor | undefined;
  const readConfig = (): Config => {
    config ??= loadConfig(dir);
    return config;
  };
  const redact = (): Redactor => {
    redactor ??= makeRedactor(readConfig);
    return redactor;
  };
  return { dir, output: createOutput(redact), program: toProgramName(dir), config: readConfig, redactor: redact };
}

/** With settings that cannot be read, what they add is not known. */
function makeRedactor(readConfig: () => Config): Redactor {
  try {
    const config = readConfig();
    return toRedaction(redactionOf(config), secretsOfEnvironment(process.env)).redactor;
  } catch {
    return createRedactor({ known: secretsOfEnvironment(process.env) });
  }
}

/** What the settings say about redaction, for `createDrover`. */
export function redactionOf({ redactPatterns, redactStored }: Config): RedactionOptions {
  return { patterns: redactPatterns, stored: redactStored };
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
  const config = context.config();
  const { prefix, shards, payloadLimitBytes, memoryLimitPercent, durability, logLevel } = config;
  // What goes wrong is thrown and told once; log lines would tell it twice.
  const logger = logLevel === "debug" ? createLogger({ level: "debug", destination: process.stderr }) : silent;
  const drover = createDrover({
    ...{ redis, prefix, shards, payloadLimitBytes, memoryLimitPercent, durability, logger },
    redaction: redactionOf(config),
  });
  try {
    return await fn(drover);
  } finally {
    await drover.close();
  }
}
