// Catches: what the loss of a cluster's primary does to runs whose slot it served. It is killed under load while its
// replicas are behind, and comes back as one of them.
import { Redis } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import type { Durability } from "../../src/core/durability.ts";
import { type ClusterNode, type RedisCluster, startRedisCluster, untilTrue } from "../support/redis-cluster.ts";
import { makeWorld, type World } from "../support/world.ts";
import { answering, hurt, type Outcome, report, type Site } from "./support/failover.ts";
import { startFleet } from "./support/fleet.ts";
import { judge } from "./support/judge.ts";
import { isLong } from "./support/seed.ts";

const rounds = isLong ? 10 : 1;
/** The gate tries each of both with one kind of Redis: here without durability, with sentinels with it. */

async function replicasOf(cluster: RedisCluster, primary: ClusterNode): Promise<ClusterNode[]> {
  const lines = (await primary.cli("CLUSTER", "REPLICAS", primary.id)) as string[];
  return cluster.nodes.filter(({ id }) => lines.some((line) => line.startsWith(id)));
}

function toSite(cluster: RedisCluster, slot: number): Site {
  let hit: ClusterNode | undefined;
  return {
    url: cluster.url,
    openRedis: async () => new Redis((await cluster.primaryOf(slot)).url),
    async cut() {
      const primary = await cluster.primaryOf(slot);
      hit = primary;
      for (const replica of await replicasOf(cluster, primary)) replica.freeze();
      await primary.cli("CLIENT", "KILL", "TYPE", "replica");
    },
    async failOver() {
      const old = hit;
      const killedAt = Date.now();
      await old?.kill9();
      for (const node of cluster.nodes) node.thaw();
      await untilTrue(async () => (await cluster.primaryOf(slot)) !== old, "a replica to take over");
      return { killedAt, takenAt: Date.now() };
    },
    async heal() {
      await hit?.restart();
      await cluster.settled();
      const primary = await cluster.primaryOf(slot);
      const linked = async (): Promise<boolean> =>
        String(await primary.cli("INFO", "replication")).includes("connected_slaves:2");
      await untilTrue(linked, "its replicas to be linked");
    },
  };
}

const prefix = "{failover}";

async function setUp(writer: "put" | "post", durability?: Durability): Promise<{ site: Site; world: World }> {
  const cluster = await startRedisCluster({ replicas: 2, nodeTimeoutMs: isLong ? 2_000 : 1_000 });
  onTestFinished(() => cluster.stop());
  const site = toSite(cluster, await cluster.slotOf(prefix));
  const redis = await site.openRedis();
  const openRedis = (): Redis => redis;
  const respond = answering(writer);
  const world = await makeWorld({ respond, server: site, openRedis, durability, prefix, toolTimeoutMs: 1_000 });
  await startFleet(world, 2);
  return { site, world };
}

/** The plain client of the world still leads to the primary that was. */
async function judgeNow(world: World, site: Site): Promise<void> {
  const redis = await site.openRedis();
  await judge({ ...world, redis }, { withinMs: 30_000 });
  redis.disconnect();
}

test.runIf(isLong)(
  "[D11] a failover of a cluster's primary loses no run that was acknowledged with durability, and runs no tool twice",
  async () => {
    const { site, world } = await setUp("post", { replicas: 1 });
    const outcomes: Outcome[] = [];
    for (let round = 0; round < rounds; round++) {
      const outcome = await hurt(world, site, `safe-${round}`);
      outcomes.push(outcome);
      expect(outcome.lost).toEqual([]);
      if (round + 1 < rounds) await site.heal();
    }
    report("cluster, replicas: 1", outcomes);
    await judgeNow(world, site);
  },
);

test("[D11] without durability a failover of a cluster's primary loses only what no replica had, and leaves nothing stuck", async () => {
  const { site, world } = await setUp("put");
  const outcomes: Outcome[] = [];
  for (let round = 0; round < rounds; round++) {
    const outcome = await hurt(world, site, `plain-${round}`);
    outcomes.push(outcome);
    const { lost, acknowledged, cutAt, takenAt } = outcome;
    expect(lost.filter(({ at }) => at < cutAt || at > takenAt)).toEqual([]);
    expect(lost.length).toBeGreaterThan(0);
    expect(lost.length).toBeLessThan(acknowledged.length);
    if (round + 1 < rounds) await site.heal();
  }
  report("cluster, no durability", outcomes);
  await judgeNow(world, site);
});
