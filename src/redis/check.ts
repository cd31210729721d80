import { defaultPrefix } from "../core/defaults.ts";
import type { DurabilityTarget } from "../core/durability.ts";
import type { RedisConnection } from "./connection.ts";
import { hashTag } from "./keys.ts";
import { readTime, type Server, serversOf } from "./nodes.ts";
import { redisErrorCode } from "./redis-error.ts";
import { isCluster } from "./redis-target.ts";
import { readInfo, unlessRefused } from "./server-facts.ts";

/** Something about a Redis server that Drover cannot work with, or that the operator should know. */
export type Finding = {
  severity: "error" | "warning";
  /** The name of the setting, as `CONFIG SET` knows it where it is one. */
  setting: string;
  /** What is wrong and what to set; of a cluster, with the nodes that it is about. */
  message: string;
};

export type CheckOptions = {
  /** The prefix in use; a cluster needs a hash tag in it. Default `{drover}`. */
  prefix?: string | undefined;
  /** What acknowledgements are to wait for. */
  durability?: DurabilityTarget | undefined;
  /** This machine's time, epoch ms; default `Date.now()`. */
  machineNow?: (() => number) | undefined;
};

const oldest = [6, 2, 0];
const recommended = [7, 0, 8];
/** The first with WAITAOF. */
const knowsDisks = [7, 2, 0];
/** Due times of BullMQ's delayed jobs are reckoned with the machine's clock. */
const maxSkewMs = 10_000;

/**
 * Looks at a server's version, eviction, persistence and clock; at those of each node of a cluster, and for replicas where
 * there should be some. An empty list means that all is well. What a host does not let us see becomes a warning.
 *
 * @throws DroverError `queue_unavailable` if the server cannot be reached.
 */
export async function checkRedis(connection: RedisConnection, options: CheckOptions = {}): Promise<Finding[]> {
  await connection.ready();
  const { client } = connection;
  if (!isCluster(client)) {
    const expectsReplicas = Boolean(client.options?.sentinels?.length);
    return checkServer({ client }, { ...options, expectsReplicas });
  }
  const found = serversOf(client).map(async (server) => {
    const findings = await checkServer(server, { ...options, expectsReplicas: true }).catch((error: unknown) => [
      warning(
        "node",
        `This node cannot be reached (${redisErrorCode(error)}). Bring it back, or make the cluster forget it.`,
      ),
    ]);
    return findings.map((finding) => ({ finding, node: server.name ?? "" }));
  });
  return mergeNodes((await Promise.all(found)).flat());
}

/** One finding for all nodes of which the same is to be said. */
function mergeNodes(found: { finding: Finding; node: string }[]): Finding[] {
  const alike = Map.groupBy(
    found,
    ({ finding: { severity, setting, message } }) => `${severity} ${setting} ${message}`,
  );
  const merged = [...alike.values()].flatMap((group) => {
    const [first] = group;
    if (!first) return [];
    // What is wrong with the prefix is wrong everywhere.
    if (first.finding.setting === "prefix") return [first.finding];
    const nodes = group.map(({ node }) => node).sort();
    return [
      { ...first.finding, message: `Node${nodes.length > 1 ? "s" : ""} ${nodes.join(", ")}: ${first.finding.message}` },
    ];
  });
  // In the same order however the nodes are found.
  return merged.sort((a, b) => (a.message < b.message ? -1 : 1));
}

async function checkServer(server: Server, options: CheckOptions & { expectsReplicas: boolean }): Promise<Finding[]> {
  const info = await readInfo(server);
  const config = await readConfig(server);
  return [
    ...checkVersion(info),
    ...checkEviction(config, info),
    ...checkPersistence(config, info),
    ...checkCluster(info, options.prefix ?? defaultPrefix),
    ...(options.expectsReplicas ? checkReplicas(info) : []),
    ...checkDurability(options.durability, config, info),
    ...(await checkSkew(server, options.machineNow ?? Date.now)),
  ];
}

function checkReplicas(info: Settings | undefined): Finding[] {
  if (info?.role !== "master" || info.connected_slaves !== "0") return [];
  return [warning("replicas", "No replica is connected: if this server is lost, nothing takes its place. Add one.")];
}

type Settings = Record<string, string>;

/** Undefined when the host refuses the command. */
async function readConfig({ client }: Server): Promise<Settings | undefined> {
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

function checkDurability(
  target: DurabilityTarget | undefined,
  config: Settings | undefined,
  info: Settings | undefined,
): Finding[] {
  if (!target || info?.role === "slave") return [];
  const wanted = Math.max(target.replicas, target.disks?.replicas ?? 0);
  const connected = Number(info?.connected_slaves ?? wanted);
  const message = `durability waits for ${wanted} replicas, but ${connected} are connected: nothing is acknowledged until there are so many. Add replicas, or wait for fewer.`;
  return [
    ...(target.disks ? checkDisks(config, info) : []),
    ...(connected < wanted ? [warning("durability", message)] : []),
  ];
}

function checkDisks(config: Settings | undefined, info: Settings | undefined): Finding[] {
  const findings: Finding[] = [];
  const version = info?.redis_version;
  if (version !== undefined && isBefore(version.split(".").map(Number), knowsDisks)) {
    findings.push(
      error(
        "durability",
        `durability.fsync needs Redis 7.2 or later, this is ${version}. Upgrade it, or leave fsync out.`,
      ),
    );
  }
  if (config?.appendonly === "no") {
    findings.push(error("durability", 'durability.fsync needs "appendonly yes". Set it, or leave fsync out.'));
  }
  return findings;
}

async function checkSkew({ client }: Server, machineNow: () => number): Promise<Finding[]> {
  const sent = machineNow();
  const told = await readTime(client);
  const received = machineNow();
  const skew = (sent + received) / 2 - told;
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
