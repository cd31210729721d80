// Catches: what goes wrong with many nodes where one server would do: keys that are looked for on the wrong one, settings of
// which one is wrong, clocks that differ, a subscription that silently ends with its node.
import { afterAll, beforeAll, expect, test } from "vitest";
import { readQueueDepths } from "../../src/bullmq/queue-depths.ts";
import { checkRedis } from "../../src/redis/check.ts";
import { connect } from "../../src/redis/connection.ts";
import { createKeys } from "../../src/redis/keys.ts";
import { readTime } from "../../src/redis/nodes.ts";
import { createRedisRunStore } from "../../src/redis/run-store.ts";
import { readServerFacts } from "../../src/redis/server-facts.ts";
import { createRedisSignals } from "../../src/redis/signals.ts";
import { created, newRun, runCreated, user } from "../contract/run-fixtures.ts";
import { type ClusterNode, type RedisCluster, startRedisCluster, untilTrue } from "../support/redis-cluster.ts";

let cluster: RedisCluster;
beforeAll(async () => {
  cluster = await startRedisCluster({ replicas: 1 });
}, 60_000);
afterAll(() => cluster.stop());

test("every role finds the nodes that have its keys", async () => {
  for (const role of ["producer", "worker"] as const) {
    const connection = connect(cluster.url, { role });
    for (const tag of ["{a}", "{b}", "{c}", "{d}"]) {
      const store = createRedisRunStore({ connection, keys: createKeys(`${tag}-${role}`) });
      const run = newRun({});
      expect(await store.create(run, [user("hi")], [runCreated(run)])).toEqual({ created: true });
      expect((await store.loadWithMessages(run.runId))?.messages).toEqual([user("hi")]);
    }
    await connection.close();
  }
});

test("queues that only somebody else knows are found on the node that has them", async () => {
  const connection = connect(cluster.url, { role: "producer" });
  for (const tag of ["{a}", "{b}", "{c}", "{d}"]) {
    await connection.use((client) => client.hset(`${tag}:q:tools-theirs:meta`, "version", "1"));
    const names = (await readQueueDepths(connection, tag)).map(({ name }) => name);
    expect(names).toEqual(["runs", "model", "tools", "tools-theirs"]);
  }
  await connection.close();
});

test("is read as one: memory and clients of all primaries, the clock of one node", async () => {
  const connection = connect(cluster.url, { role: "producer" });
  const { redis } = await readServerFacts(connection);
  const primaries = await Promise.all(cluster.nodes.slice(0, 3).map((node) => node.cli("INFO", "memory")));
  const used = primaries.map((text) => Number(/used_memory:(\d+)/.exec(String(text))?.[1]));
  expect(redis.usedMemoryBytes).toBeGreaterThan(Math.max(...used) * 1.5);
  expect(Math.abs((await readTime(connection.client)) - Date.now())).toBeLessThan(5_000);
  await connection.close();
});

test("is checked node by node, and what is wrong is said with the nodes it is about", async () => {
  const connection = connect(cluster.url, { role: "producer" });
  expect(await checkRedis(connection)).toEqual([]);
  const [first, second] = cluster.nodes as [ClusterNode, ClusterNode];
  await first.cli("CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
  for (const node of [first, second]) await node.cli("CONFIG", "SET", "appendfsync", "no");
  const names = [first, second].map(({ port }) => `127.0.0.1:${port}`).sort();
  expect(await checkRedis(connection, { prefix: "mine" })).toEqual(
    expect.arrayContaining([
      { severity: "error", setting: "prefix", message: expect.stringContaining('"{mine}"') },
      {
        severity: "error",
        setting: "maxmemory-policy",
        message: expect.stringMatching(`^Node 127.0.0.1:${first.port}: maxmemory-policy is "allkeys-lru"`),
      },
      {
        severity: "warning",
        setting: "appendfsync",
        message: expect.stringMatching(`^Nodes ${names.join(", ")}: appendfsync is "no"`),
      },
    ]),
  );
  await first.cli("CONFIG", "SET", "maxmemory-policy", "noeviction");
  await connection.close();
});

test("whose a damaged run was is found on whichever node has its keys", async () => {
  for (const prefix of ["{one}", "{two}", "{three}", "{four}"]) {
    const connection = connect(cluster.url, { role: "worker" });
    const store = createRedisRunStore({ connection, keys: createKeys(prefix) });
    await created(store, { tenant: "t1", session: "s1" });
    await connection.client.hdel(createKeys(prefix).run("run-a").head, "fixed");
    expect(await store.removeDamaged("run-a")).toMatchObject({ session: "s1" });
    expect(await store.count({ tenant: "t1" })).toMatchObject({ queued: 0 });
    await connection.close();
  }
});

/** The node that holds the process's subscriptions. */
async function subscribedTo(name: string): Promise<ClusterNode> {
  for (;;) {
    for (const node of cluster.nodes) {
      const clients = String(await node.cli("CLIENT", "LIST", "TYPE", "PUBSUB").catch(() => ""));
      if (clients.includes(`name=${name}`)) return node;
    }
  }
}

test("announcements are heard again when the node that told them is gone, and that some were missed is told", async () => {
  const name = "drover-cluster-test";
  const connection = connect(cluster.url, { role: "worker" });
  const signals = createRedisSignals({ target: cluster.url, connection, keys: createKeys("{signals}"), name });
  const heard: (string | null)[] = [];
  signals.onAnnounced((runId) => heard.push(runId));
  await untilTrue(async () => heard.length === 1, "the subscription to stand");
  expect(signals.isHearing()).toBe(true);
  const node = await subscribedTo(name);
  await node.kill9();
  await untilTrue(async () => heard.length === 2, "the subscription to stand again");
  expect(heard).toEqual([null, null]);
  await cluster.settled();
  await signals.announce("run-x");
  await untilTrue(async () => heard.at(-1) === "run-x", "the announcement");
  await signals.close();
  await connection.close();
  await node.restart();
  await cluster.settled();
}, 60_000);

test("a producer fails within two seconds while its key's primary is away, and a worker waits for the next one", async () => {
  const slot = await cluster.slotOf("{fast}");
  const old = await cluster.primaryOf(slot);
  const producer = connect(cluster.url, { role: "producer" });
  const worker = connect(cluster.url, { role: "worker" });
  await producer.use((client) => client.set("{fast}a", "1"));
  await worker.use((client) => client.set("{fast}a", "1"));
  await untilTrue(async () => (await old.cli("WAIT", "1", "1000")) === 1, "its replica");
  await old.kill9();
  const waiting = worker.use((client) => client.incr("{fast}counter"));
  const startedAt = performance.now();
  const failed = await producer.use((client) => client.get("{fast}a")).catch((error: unknown) => error);
  const ms = performance.now() - startedAt;
  // Unless the failover was quicker than it gave up.
  if (failed !== "1") expect(failed).toMatchObject({ code: "queue_unavailable" });
  expect(ms).toBeLessThan(2_500);
  expect(await waiting).toBe(1);
  expect(await cluster.primaryOf(slot)).not.toBe(old);
  await untilTrue(async () => (await producer.use((client) => client.get("{fast}a"))) === "1", "the producer");
  await Promise.all([producer.close(), worker.close()]);
  await old.restart();
}, 60_000);
