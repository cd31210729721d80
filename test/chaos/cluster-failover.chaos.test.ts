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
/** Of each primary. */
const replicas = 2;
/** The gate tries each of both with one kind of Redis: here without durability, with sentinels with it. */

/**
 * Those that are linked to it and have all that was written. Not by the cluster's own table, in which a node that came back
 * is nobody's replica until it has told so, a second later: one that is not cut off loses nothing.
 */
async function replicasOf(cluster: RedisCluster, primary: ClusterNode): Promise<ClusterNode[]> {
  const info = String(await primary.cli("INFO", "replication"));
  const ports = [...info.matchAll(/^slave\d+:.*port=(\d+),state=online/gm)].map(([, port]) => Number(port));
  return cluster.nodes.filter(({ port }) => ports.includes(port));
}

function toSite(cluster: RedisCluster, slot: number): Site {
  let hit: ClusterNode | undefined;
  return {
    url: cluster.url,
    openRedis: async () => new Redis((await cluster.primaryOf(slot)).url),
    async cut() {
      const primary = await cluster.primaryOf(slot);
      hit = primary;
      const linked = await replicasOf(cluster, primary);
      expect(linked.length).toBe(replicas);
      for (const replica of linked) replica.freeze();
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
      const linked = async (): Promise<boolean> => (await replicasOf(cluster, primary)).length === replicas;
      await untilTrue(linked, "its replicas to be linked");
    },
  };
}

const prefix = "{failover}";

async function setUp(writer: "put" | "post", durability?: Durability): Promise<{ site: Site; world: World }> {
  const cluster = await startRedisCluster({ replicas, nodeTimeoutMs: isLong ? 2_000 : 1_000 });
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
