// Catches: what a failover by sentinels does to runs. The primary is killed under load while its replicas are behind; nothing
// is simulated, and what producers were told is held against what is there afterwards.
import { Redis } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import type { Durability } from "../../src/core/durability.ts";
import { type SentinelGroup, startSentinelGroup } from "../support/redis-sentinel.ts";
import { makeWorld, type World } from "../support/world.ts";
import { answering, hurt, type Outcome, report, type Site } from "./support/failover.ts";
import { startFleet } from "./support/fleet.ts";
import { judge } from "./support/judge.ts";
import { isLong } from "./support/seed.ts";

const rounds = isLong ? 10 : 1;
/** The gate tries each of both with one kind of Redis: here with durability, with a cluster without it. */

function toSite(group: SentinelGroup): Site {
  const sentinels = group.sentinels.map(({ port }) => ({ host: "127.0.0.1", port }));
  let dead: SentinelGroup["servers"][number] | undefined;
  return {
    url: group.url,
    openRedis: async () => new Redis({ sentinels, name: group.name }),
    async cut() {
      const primary = await group.primary();
      for (const server of group.servers) if (server !== primary) server.freeze();
      await primary.cli("CLIENT", "KILL", "TYPE", "replica");
    },
    async failOver() {
      dead = await group.primary();
      const killedAt = Date.now();
      await dead.kill9();
      for (const server of group.servers) server.thaw();
      await group.failedOver(dead);
      return { killedAt, takenAt: Date.now() };
    },
    async heal() {
      await dead?.restart();
      await group.settled();
    },
  };
}

async function setUp(writer: "put" | "post", durability?: Durability): Promise<{ site: Site; world: World }> {
  const group = await startSentinelGroup();
  onTestFinished(() => group.stop());
  const site = toSite(group);
  const redis = await site.openRedis();
  const openRedis = (): Redis => redis;
  const world = await makeWorld({
    respond: answering(writer),
    server: site,
    openRedis,
    durability,
    toolTimeoutMs: 1_000,
  });
  await startFleet(world, 2);
  return { site, world };
}

test("[D11] a failover by sentinels loses no run that was acknowledged with durability, and runs no tool twice", async () => {
  const { site, world } = await setUp("post", { replicas: 1 });
  const outcomes: Outcome[] = [];
  for (let round = 0; round < rounds; round++) {
    const outcome = await hurt(world, site, `safe-${round}`);
    outcomes.push(outcome);
    expect(outcome.lost).toEqual([]);
    if (round + 1 < rounds) await site.heal();
  }
  report("sentinel, replicas: 1", outcomes);
  await judge(world, { withinMs: 30_000 });
});

test.runIf(isLong)(
  "[D11] without durability a failover by sentinels loses only what no replica had, and leaves nothing stuck",
  async () => {
    const { site, world } = await setUp("put");
    const outcomes: Outcome[] = [];
    for (let round = 0; round < rounds; round++) {
      const outcome = await hurt(world, site, `plain-${round}`);
      outcomes.push(outcome);
      const { lost, acknowledged, cutAt, takenAt } = outcome;
      // Written while no replica listened; of what they had nothing is gone.
      expect(lost.filter(({ at }) => at < cutAt || at > takenAt)).toEqual([]);
      expect(lost.length).toBeGreaterThan(0);
      expect(lost.length).toBeLessThan(acknowledged.length);
      if (round + 1 < rounds) await site.heal();
    }
    report("sentinel, no durability", outcomes);
    await judge(world, { withinMs: 30_000 });
  },
);
