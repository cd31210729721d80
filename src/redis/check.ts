import { defaultPrefix } from "../core/defaults.ts";
import type { RedisConnection } from "./connection.ts";
import { hashTag } from "./keys.ts";
import { readInfo, unlessRefused } from "./server-facts.ts";

/** Something about a Redis server that Drover cannot work with, or that the operator should know. */
export type Finding = {
  severity: "error" | "warning";
  /** The name of the setting, as `CONFIG SET` knows it where it is one. */
  setting: string;
  /** What is wrong and what to set. */
  message: string;
};

export type CheckOptions = {
  /** The prefix in use; a cluster needs a hash tag in it. Default `{drover}`. */
  prefix?: string | undefined;
  /** This machine's time, epoch ms; default `Date.now()`. */
  machineNow?: (() => number) | undefined;
};

const oldest = [6, 2, 0];
const recommended = [7, 0, 8];
/** Due times of BullMQ's delayed jobs are reckoned with the machine's clock. */
const maxSkewMs = 10_000;

/**
 * Looks at a server's version, eviction, persistence and clock. An empty list means that all is well. What a host does
 * not let us see becomes a warning.
 *
 * @throws DroverError `queue_unavailable` if the server cannot be reached.
 */
export async function checkRedis(connection: RedisConnection, options: CheckOptions = {}): Promise<Finding[]> {
  await connection.ready();
  const info = await readInfo(connection);
  const config = await readConfig(connection);
  return [
    ...checkVersion(info),
    ...checkEviction(config, info),
    ...checkPersistence(config, info),
    ...checkCluster(info, options.prefix ?? defaultPrefix),
    ...(await checkSkew(connection, options.machineNow ?? Date.now)),
  ];
}

type Settings = Record<string, string>;

/** Undefined when the host refuses the command. */
async function readConfig({ client }: RedisConnection): Promise<Settings | undefined> {
  const names = ["maxmemory-policy", "appendonly", "appendfsync", "save"];
  const replies = await unlessRefused(() => Promise.all(names.map((name) => client.config("GET", name))));
  if (replies === undefined) return undefined;
  return Object.fromEntries(
    (replies as string[][]).flatMap(([name, value]) => (name === undefined ? [] : [[name, value ?? ""]])),
  );
}

function checkVersion(info: Settings | undefined): Finding[] {
  const version = info?.redis_version;
  if (version === undefined) {
    return [warning("version", "This host does not tell its version (INFO). Drover needs Redis 6.2 or later.")];
  }
  const parts = version.split(".").map(Number);
  if (isBefore(parts, oldest)) {
    return [
      error(
        "version",
        `Redis ${version} is too old: Drover needs 6.2 or later, best 7.0.8 or later. Upgrade the server.`,
      ),
    ];
  }
  if (isBefore(parts, recommended)) {
    const why = "treats very short blocking reads as endless, so that delayed steps may come late";
    return [warning("version", `Redis ${version} ${why}. Upgrade to 7.0.8 or later.`)];
  }
  return [];
}

function isBefore(version: number[], other: number[]): boolean {
  for (const [index, part] of other.entries()) {
    const own = version[index] ?? 0;
    if (own !== part) return own < part;
  }
  return false;
}

function checkEviction(config: Settings | undefined, info: Settings | undefined): Finding[] {
  const setting = "maxmemory-policy";
  const policy = config?.[setting] ?? info?.maxmemory_policy;
  if (policy === undefined) {
    return [
      warning(setting, 'This host does not tell its eviction policy. It must be "noeviction", or runs get lost.'),
    ];
  }
  if (policy === "noeviction") return [];
  return [
    error(
      setting,
      `maxmemory-policy is "${policy}": when memory runs short Redis would delete runs and locks. ` +
        'Set it to "noeviction" (CONFIG SET maxmemory-policy noeviction, and in redis.conf).',
    ),
  ];
}

function checkPersistence(config: Settings | undefined, info: Settings | undefined): Finding[] {
  const appendOnly = config?.appendonly ?? ({ "0": "no", "1": "yes" }[info?.aof_enabled ?? ""] as string | undefined);
  if (appendOnly === undefined) {
    return [
      warning("appendonly", 'This host does not tell how it persists. Use "appendonly yes", or a restart loses runs.'),
    ];
  }
  if (appendOnly === "yes") {
    if (config?.appendfsync !== "no") return [];
    return [
      warning(
        "appendfsync",
        'appendfsync is "no": a power cut loses what the system has not written yet, some 30 s. Set "everysec" or "always".',
      ),
    ];
  }
  const snapshots = config?.save ? `only snapshots are taken (save "${config.save}")` : "nothing is saved to disk";
  return [
    warning(
      "appendonly",
      `Persistence is off: ${snapshots}, so a restart loses runs. Set "appendonly yes" with "appendfsync everysec".`,
    ),
  ];
}

function checkCluster(info: Settings | undefined, prefix: string): Finding[] {
  if (info?.cluster_enabled !== "1" || hashTag(prefix) !== undefined) return [];
  return [
    error("prefix", `The prefix "${prefix}" has no hash tag, which a cluster needs. Use one such as "{${prefix}}".`),
  ];
}

async function checkSkew({ client }: RedisConnection, machineNow: () => number): Promise<Finding[]> {
  const sent = machineNow();
  const [seconds, micros] = (await client.time()) as unknown as [string, string];
  const received = machineNow();
  const skew = (sent + received) / 2 - (Number(seconds) * 1_000 + Number(micros) / 1_000);
  if (Math.abs(skew) <= maxSkewMs) return [];
  const how = `${Math.round(Math.abs(skew) / 1_000)} s ${skew > 0 ? "ahead of" : "behind"}`;
  return [
    warning(
      "clock",
      `This machine's clock is ${how} Redis's: delayed steps come early or late. Synchronise both (NTP).`,
    ),
  ];
}

function error(setting: string, message: string): Finding {
  return { severity: "error", setting, message };
}

function warning(setting: string, message: string): Finding {
  return { severity: "warning", setting, message };
}
