import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { type EmbeddedRedis, startEmbeddedRedis } from "../embedded/redis.ts";

export type Fsync = "always" | "everysec";

/** A private Redis that can be killed and started again on its data. */
export type ChaosRedis = {
  /** Path of its socket; undefined while it is away. */
  socketPath(): string | undefined;
  /** A command over a connection of its own. */
  call(...command: [string, ...(string | number)[]]): Promise<unknown>;
  kill(): Promise<void>;
  /** The same for a process that ends at once: nothing is awaited. */
  killNow(): void;
  stop(): Promise<void>;
  /** Starts it again. */
  start(): Promise<void>;
};

/** @param fsync `always`: nothing that was acknowledged is lost in a kill. */
export async function startChaosRedis(dir: string, fsync: Fsync): Promise<ChaosRedis> {
  let redis: EmbeddedRedis | undefined;
  async function start(): Promise<void> {
    const started = await startEmbeddedRedis({ dir });
    try {
      // Nobody reaches it before it is as it must be.
      await command(started.url, ["CONFIG", "SET", "appendfsync", fsync]);
    } catch (error) {
      await started.stop();
      throw error;
    }
    redis = started;
  }
  await start();
  function killNow(): EmbeddedRedis | undefined {
    const victim = redis;
    redis = undefined;
    if (victim && exists(victim.serverPid)) process.kill(victim.serverPid, "SIGKILL");
    return victim;
  }
  return {
    socketPath: () => (redis ? toPath(redis.url) : undefined),
    call: async (...words) => {
      if (!redis) throw new Error("Redis is away");
      return command(redis.url, words);
    },
    killNow: () => void killNow(),
    async kill() {
      const victim = killNow();
      if (!victim) return;
      while (exists(victim.serverPid)) await sleep(5);
    },
    async stop() {
      const leaving = redis;
      redis = undefined;
      await leaving?.stop();
    },
    start: async () => {
      if (!redis) await start();
    },
  };
}

function toPath(url: string): string {
  return decodeURIComponent(new URL(url).pathname);
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function command(url: string, [name, ...args]: [string, ...(string | number)[]]): Promise<unknown> {
  const client = new Redis({ path: toPath(url), maxRetriesPerRequest: 3 });
  client.on("error", () => {}); // The command's own rejection tells it.
  try {
    return await client.call(name, ...args);
  } finally {
    client.disconnect();
  }
}
