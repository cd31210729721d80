import { connect as connectSocket } from "node:net";
import { cliOf } from "./redis.ts";
import { freePort, type PrivateServer, startPrivateRedis } from "./redis-server.ts";

export type ClusterNode = PrivateServer & {
  readonly port: number;
  readonly id: string;
  /** Sends a command to this node over a connection of its own. */
  cli(...command: string[]): Promise<unknown>;
};

export type RedisCluster = {
  /** As a target: `redis+cluster://`, with every node. */
  url: string;
  /** Primaries first, as they were at the start; then their replicas in the same order. */
  nodes: ClusterNode[];
  /** The node that serves a slot now, as a majority of the primaries has it. */
  primaryOf(slot: number): Promise<ClusterNode>;
  slotOf(key: string): Promise<number>;
  /** Resolves when every node that is up says that all slots are served. */
  settled(): Promise<void>;
  stop(): Promise<void>;
};

export type RedisClusterOptions = {
  /** Default 3. */
  primaries?: number;
  /** Of each primary; default 0. */
  replicas?: number;
  /** How long a node must be silent to be failed over, in ms; default 1,000. */
  nodeTimeoutMs?: number;
  /** More arguments for each server. */
  args?: string[];
};

const slots = 16_384;

/** A Redis Cluster of private servers, made by commands, as `redis-cli --cluster create` does it. */
export async function startRedisCluster(options: RedisClusterOptions = {}): Promise<RedisCluster> {
  const { primaries = 3, replicas = 0 } = options;
  const nodes: ClusterNode[] = [];
  for (let count = 0; count < primaries * (1 + replicas); count++) nodes.push(await startNode(options));
  const [first] = nodes as [ClusterNode];
  await Promise.all(
    nodes.map(async (node, index) => {
      await node.cli("CLUSTER", "SET-CONFIG-EPOCH", String(index + 1));
      if (index >= primaries) return;
      const from = Math.floor((index * slots) / primaries);
      const to = Math.floor(((index + 1) * slots) / primaries) - 1;
      await node.cli("CLUSTER", "ADDSLOTSRANGE", String(from), String(to));
    }),
  );
  for (const node of nodes.slice(1)) await node.cli("CLUSTER", "MEET", "127.0.0.1", String(first.port));
  const knowsAll = async (node: ClusterNode): Promise<boolean> =>
    String(await node.cli("CLUSTER", "INFO")).includes(`cluster_known_nodes:${nodes.length}`);
  await untilTrue(async () => (await Promise.all(nodes.map(knowsAll))).every(Boolean), "nodes to meet");
  const cluster = toCluster(nodes);
  await cluster.settled();
  await Promise.all(
    nodes.slice(primaries).map(async (node, index) => {
      await node.cli("CLUSTER", "REPLICATE", (nodes[index % primaries] as ClusterNode).id);
      await untilTrue(async () => (await replication(node)).includes("master_link_status:up"), "a replica's link");
    }),
  );
  return cluster;
}

async function startNode({ nodeTimeoutMs = 1_000, args = [] }: RedisClusterOptions): Promise<ClusterNode> {
  const port = await freeClusterPort();
  const clusterArgs = ["--cluster-enabled", "yes", "--cluster-node-timeout", String(nodeTimeoutMs)];
  // A replica is there at once after it was started, and stands for election however long it was cut off.
  const replicaArgs = [
    "--cluster-allow-replica-migration",
    "no",
    "--cluster-replica-validity-factor",
    "0",
    "--repl-diskless-sync-delay",
    "0",
    "--cluster-require-full-coverage",
    "no",
  ];
  const server = await startPrivateRedis({ port, args: [...clusterArgs, ...replicaArgs, ...args] });
  const cli = cliOf(server.url);
  return { ...server, port, cli, id: String(await cli("CLUSTER", "MYID")) };
}

/** A node also listens on its port and 10,000. */
async function freeClusterPort(): Promise<number> {
  for (;;) {
    const port = await freePort();
    if (port <= 55_535 && (await isFree(port + 10_000))) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connectSocket(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(false);
    });
    socket.once("error", () => resolve(true));
  });
}

function toCluster(nodes: ClusterNode[]): RedisCluster {
  const up = async (): Promise<ClusterNode[]> => {
    const answers = await Promise.all(
      nodes.map((node) =>
        node.cli("PING").then(
          () => node,
          () => undefined,
        ),
      ),
    );
    return answers.filter((node) => node !== undefined);
  };
  const ownerOf = async (asked: ClusterNode, slot: number): Promise<ClusterNode | undefined> => {
    const ranges = (await asked.cli("CLUSTER", "SLOTS")) as [number, number, [string, number, string]][];
    const range = ranges.find(([from, to]) => from <= slot && slot <= to);
    return nodes.find(({ id }) => id === range?.[2][2]);
  };
  return {
    url: `redis+cluster://${nodes.map(({ port }) => `127.0.0.1:${port}`).join(",")}`,
    nodes,
    async primaryOf(slot) {
      const named = await Promise.all((await up()).map((node) => ownerOf(node, slot).catch(() => undefined)));
      const votes = Map.groupBy(named, (node) => node?.id);
      const [most] = [...votes.values()].sort((a, b) => b.length - a.length);
      if (!most?.[0]) throw new Error(`no node serves slot ${slot}`);
      return most[0];
    },
    slotOf: async (key) => Number(await (await up())[0]?.cli("CLUSTER", "KEYSLOT", key)),
    settled: () =>
      untilTrue(async () => {
        const infos = await Promise.all((await up()).map((node) => node.cli("CLUSTER", "INFO").catch(() => "")));
        return infos.every(
          (info) => /cluster_state:ok/.test(String(info)) && /cluster_slots_ok:16384/.test(String(info)),
        );
      }, "all slots to be served"),
    async stop() {
      await Promise.all(nodes.map((node) => node.stop()));
    },
  };
}

async function replication(node: ClusterNode): Promise<string> {
  return String(await node.cli("INFO", "replication"));
}

/** Asks every 20 ms until it is so. */
export async function untilTrue(ask: () => Promise<boolean>, what: string, timeoutMs = 30_000): Promise<void> {
  const until = performance.now() + timeoutMs;
  while (!(await ask().catch(() => false))) {
    if (performance.now() > until) throw new Error(`waited ${timeoutMs} ms for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
