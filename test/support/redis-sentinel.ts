import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cliOf } from "./redis.ts";
import { untilTrue } from "./redis-cluster.ts";
import { freePort, type PrivateServer, startPrivateRedis, startSentinel } from "./redis-server.ts";

export type GroupServer = PrivateServer & {
  readonly port: number;
  cli(...command: string[]): Promise<unknown>;
};

/** One primary, its replicas, and sentinels that fail over. */
export type SentinelGroup = {
  /** As a target: `redis+sentinel://`, with every sentinel. */
  url: string;
  name: string;
  /** The primary first, as it was at the start. */
  servers: GroupServer[];
  sentinels: GroupServer[];
  /** The server that most sentinels take for the primary. */
  primary(): Promise<GroupServer>;
  /** Resolves with the new primary, once most sentinels have another one than `old` and it takes writes. */
  failedOver(old: GroupServer): Promise<GroupServer>;
  /** Resolves when every server that is up but the primary follows it, and sentinels know. */
  settled(): Promise<void>;
  stop(): Promise<void>;
};

export type SentinelGroupOptions = {
  /** Default 2. */
  replicas?: number;
  /** How long a server must be silent to be taken for down, in ms; default 1,000. */
  downAfterMs?: number;
  /** More arguments for each server. */
  args?: string[];
};

const name = "drover-test";

/** Servers and three sentinels of our own on the loopback interface. */
export async function startSentinelGroup(options: SentinelGroupOptions = {}): Promise<SentinelGroup> {
  const { replicas = 2, downAfterMs = 1_000, args = [] } = options;
  const servers: GroupServer[] = [];
  for (let count = 0; count <= replicas; count++) {
    const port = await freePort();
    const follow = servers[0] ? ["--replicaof", "127.0.0.1", String(servers[0].port)] : [];
    const quick = ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"];
    const server = await startPrivateRedis({ port, args: [...quick, ...follow, ...args] });
    servers.push({ ...server, port, cli: cliOf(server.url) });
  }
  const dir = await mkdtemp(join(tmpdir(), "drover-sentinel-"));
  const sentinels: GroupServer[] = [];
  for (let count = 0; count < 3; count++) {
    const port = await freePort();
    const path = join(dir, `${count}.conf`);
    await writeFile(path, sentinelConfig(port, (servers[0] as GroupServer).port, downAfterMs));
    const sentinel = await startSentinel(path, port);
    sentinels.push({ ...sentinel, port, cli: cliOf(sentinel.url) });
  }
  const group = toGroup(servers, sentinels, dir);
  await group.settled();
  return group;
}

function sentinelConfig(port: number, primaryPort: number, downAfterMs: number): string {
  return [
    `port ${port}`,
    "bind 127.0.0.1",
    `sentinel monitor ${name} 127.0.0.1 ${primaryPort} 2`,
    `sentinel down-after-milliseconds ${name} ${downAfterMs}`,
    `sentinel failover-timeout ${name} 5000`,
    `sentinel parallel-syncs ${name} 2`,
    "",
  ].join("\n");
}

function toGroup(servers: GroupServer[], sentinels: GroupServer[], dir: string): SentinelGroup {
  const primary = async (): Promise<GroupServer> => {
    const told = await Promise.all(
      sentinels.map((sentinel) => sentinel.cli("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name).catch(() => null)),
    );
    const votes = Map.groupBy(told as ([string, string] | null)[], (address) => Number(address?.[1] ?? 0));
    const [port] = [...votes].filter(([, all]) => all.length >= 2).map(([most]) => most);
    const found = servers.find((server) => server.port === port);
    if (!found) throw new Error("most sentinels do not agree on a primary");
    return found;
  };
  const info = async (server: GroupServer): Promise<string> => String(await server.cli("INFO", "replication"));
  return {
    url: `redis+sentinel://${sentinels.map(({ port }) => `127.0.0.1:${port}`).join(",")}/${name}`,
    name,
    servers,
    sentinels,
    primary,
    async failedOver(old) {
      await untilTrue(async () => {
        const now = await primary();
        return now !== old && (await info(now)).includes("role:master");
      }, "a failover");
      return primary();
    },
    settled: () =>
      untilTrue(async () => {
        const now = await primary();
        const others = servers.filter((server) => server !== now);
        const linked = await Promise.all(
          others.map((server) => info(server).then((text) => follows(text, now.port), isDown)),
        );
        const up = linked.filter((state) => state !== "down");
        const known = await Promise.all(sentinels.map((sentinel) => sentinel.cli("SENTINEL", "CKQUORUM", name)));
        const replicas = await knownReplicas(sentinels);
        return up.every(Boolean) && known.every((text) => String(text).startsWith("OK")) && replicas >= up.length;
      }, "the group to settle"),
    async stop() {
      await Promise.all([...sentinels, ...servers].map((server) => server.stop()));
      await rm(dir, { recursive: true, force: true });
    },
  };
}

function follows(text: string, port: number): boolean {
  return text.includes("role:slave") && text.includes(`master_port:${port}`) && text.includes("master_link_status:up");
}

function isDown(): "down" {
  return "down";
}

/** How many replicas the sentinel knows that knows fewest. */
async function knownReplicas(sentinels: GroupServer[]): Promise<number> {
  const counts = await Promise.all(
    sentinels.map(async (sentinel) => {
      const fields = (await sentinel.cli("SENTINEL", "MASTER", name)) as string[];
      return Number(fields[fields.indexOf("num-slaves") + 1]);
    }),
  );
  return Math.min(...counts);
}
