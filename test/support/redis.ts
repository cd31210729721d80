import { randomBytes } from "node:crypto";
import { Redis } from "ioredis";
import type {} from "vitest";
import { startDockerRedis } from "./redis-docker.ts";
import { startPrivateRedis, type TestRedisOptions } from "./redis-server.ts";

export type { TestRedisOptions } from "./redis-server.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** The server that the whole test run shares. Keep to a prefix of your own: `testPrefix()`. */
    redisUrl: string;
  }
}

export type TestRedis = {
  url: string;
  /** A prefix that no other test has. */
  prefix: string;
  kind: "given" | "docker" | "private";
  /** Runs redis-cli-like: a command and its arguments over a connection of its own. */
  cli(...command: string[]): Promise<unknown>;
  /** Ends the server, or deletes what lies under `prefix` on a shared one. */
  stop(): Promise<void>;
  /** Takes it down without warning. `restart` brings it back on the same port and data. */
  kill9(): Promise<void>;
  /** Stops it in order if it is up, and starts it on the same port and data. */
  restart(): Promise<void>;
};

/** A prefix for keys that no other test uses. */
export function testPrefix(): string {
  return `{test-${randomBytes(6).toString("hex")}}`;
}

/**
 * A Redis for tests: the one REDIS_URL names, else a container when Docker answers, else a private redis-server. The
 * data is persistent (append-only) and nothing is evicted.
 */
export async function startTestRedis(options: TestRedisOptions = {}): Promise<TestRedis> {
  const prefix = testPrefix();
  const own = options.own || options.args || options.port !== undefined || options.dir !== undefined;
  const given = process.env.REDIS_URL;
  if (given && !own) return { url: given, prefix, kind: "given", ...sharedServer(given, prefix) };
  const docker = process.env[noDocker] ? undefined : await startDockerRedis(options).catch(noContainer);
  if (docker) return { ...docker, prefix, kind: "docker", cli: cliOf(docker.url) };
  const server = await startPrivateRedis(options);
  return { ...server, prefix, kind: "private", cli: cliOf(server.url) };
}

/** Set once a container could not be had, for this process and those it starts. */
const noDocker = "DROVER_TEST_NO_DOCKER";

/** An engine that answers may still be unable to get the image. */
function noContainer(error: unknown): undefined {
  process.env[noDocker] = "1";
  const why = error instanceof Error ? error.message : String(error);
  process.stderr.write(`no Redis in a container (${why.slice(0, 200)}); trying redis-server\n`);
}

function sharedServer(url: string, prefix: string): Pick<TestRedis, "cli" | "stop" | "kill9" | "restart"> {
  const refuse = async (): Promise<never> => {
    throw new Error("the shared Redis of REDIS_URL is not ours to stop: call startTestRedis({ own: true })");
  };
  return { cli: cliOf(url), stop: () => deletePrefix(url, prefix), kill9: refuse, restart: refuse };
}

/** Sends commands to a server, each over a connection of its own. */
export function cliOf(url: string): TestRedis["cli"] {
  return async (...command) => {
    const client = new Redis(url, { maxRetriesPerRequest: 1 });
    client.on("error", () => {}); // The command's own rejection tells it.
    try {
      const [name, ...args] = command as [string, ...string[]];
      return await client.call(name, ...args);
    } finally {
      client.disconnect();
    }
  };
}

/** Deletes every key under a prefix, page by page. */
export async function deletePrefix(url: string, prefix: string): Promise<void> {
  const client = new Redis(url);
  try {
    const pattern = `${prefix.replace(/[\\*?[\]]/g, "\\$&")}*`;
    for await (const keys of client.scanStream({ match: pattern, count: 1_000 })) {
      if (keys.length > 0) await client.unlink(...keys);
    }
  } finally {
    client.disconnect();
  }
}
