// Catches: scripts whose keys lie in different slots of a cluster, which refuses them only once there are several nodes.
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { createDrover } from "../../src/drover.ts";
import type { RunHandle } from "../../src/engine/run-handle.ts";
import { shardOf, shardPrefixes } from "../../src/sharding/slots.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { eventually } from "../support/eventually.ts";
import type { FakeReply, FakeRequest } from "../support/fake-openai.ts";
import { type RedisCluster, startRedisCluster } from "../support/redis-cluster.ts";
import { makeWorld, readFeed, resultsOf, type World } from "../support/world.ts";
import { openClusterClient } from "./support/cluster-client.ts";
import { tellFigure } from "./support/figure.ts";
import { startFleet } from "./support/fleet.ts";
import { judge } from "./support/judge.ts";
import { isLong, seeded } from "./support/seed.ts";

const shards = 6;
const masters = 3;

/** What a run does is the last word of its input; of a session's run only what came after its own input counts. */
function respond({ body }: FakeRequest): FakeReply {
  const at = body.messages.findLastIndex(({ role }) => role === "user");
  const [runId = "", kind = ""] = String(body.messages[at]?.content).split(" ");
  const turn = body.messages.slice(at).filter(({ role }) => role === "assistant").length + 1;
  const call = (name: string) => ({ name, arguments: { note: `${runId} ${turn}` } });
  const turns: Record<string, string[][]> = {
    tools: [["look", "browse", "put"], ["post"], ["browse"]],
    ask: [["offer"]],
  };
  if (kind === "hand" && turn === 1) {
    // To a run of its own, whose steps lie in another queue too, in whichever shard its id belongs to.
    return { toolCalls: [{ name: "hand_continue", arguments: { input: `${runId}-child tools` } }] };
  }
  const names = turns[kind]?.[turn - 1];
  if (!names) return { text: `${runId} is done` };
  return { text: `turn ${turn}`, toolCalls: names.map(call) };
}

/** Every key there is, by the master that has it. */
async function keysByMaster(cluster: RedisCluster): Promise<string[][]> {
  return Promise.all(cluster.nodes.map(async (node) => (await node.cli("KEYS", "*")) as string[]));
}

/** A producer gives its first contact 1.5 s, and fails then; on a busy machine a cluster may take longer. */
const inContact = { timeout: 20_000 };
const runOf = (key: string): string | undefined => /:r:run:([^:]+)(?!.*:(?:at|void:))/.exec(key)?.[1];

describe("on a cluster of three masters", () => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await startRedisCluster({ primaries: masters });
  });
  afterAll(() => cluster.stop());

  const open = async (more: Partial<Parameters<typeof makeWorld>[0]> = {}): Promise<World> => {
    const world = await makeWorld({
      respond,
      server: cluster,
      openRedis: () => openClusterClient(cluster),
      shards,
      ownQueue: "browser",
      handOn: true,
      toolTimeoutMs: 1_000,
      ...more,
    });
    await vi.waitFor(() => world.drover.list({ limit: 1 }), inContact);
    return world;
  };

  test("[Q21] runs, their children, sessions, approvals, cancels and deletions work over six shards while workers are killed", async () => {
    const random = seeded();
    const each = isLong ? 40 : 4;
    const world = await open();
    const { drover } = world;
    const fleet = await startFleet(world, isLong ? 3 : 2, { lockMs: 1_000 });
    const done = new AbortController();
    const named = (name: string): string[] => Array.from({ length: each }, (_, index) => `${name}-${index}`);

    for (const id of named("made")) {
      await world.plainQueue("runs").add("start", { agent: "e2e", input: `${id} tools` }, { jobId: id });
    }
    const start = (id: string, kind: string, session?: string): Promise<RunHandle> =>
      drover.start("e2e", `${id} ${kind}`, { runId: id, ...(session ? { session } : {}) });
    const plain = await Promise.all(named("plain").map((id) => start(id, "tools")));
    const killing = fleet.killAtRandom(random, { everyMs: [300, 1_200], until: done.signal });
    const talks: RunHandle[] = [];
    for (const [index, id] of named("talk").entries()) talks.push(await start(id, "tools", `chat-${index % 2}`));
    const parents = await Promise.all(
      named("parent").map((id) => start(id, "hand", random.pick([undefined, `own-${id}`]))),
    );
    const asks = await Promise.all(named("ask").map((id) => start(id, "ask", random.pick([undefined, `solo-${id}`]))));
    const asked = await Promise.all(asks.map((run) => eventually(() => openCallOf(run), 60_000)));
    await Promise.all(
      asks.map((run, index) =>
        index % 2 === 0 ? run.approve(asked[index] ?? "", { by: "ann" }) : run.cancel({ by: "ann" }),
      ),
    );
    const made = await Promise.all(
      named("made").map((id) =>
        eventually(
          () =>
            drover
              .get(id)
              .status()
              .then(
                () => drover.get(id),
                () => undefined,
              ),
          60_000,
        ),
      ),
    );
    const results = await resultsOf([...plain, ...talks, ...parents, ...asks, ...made], 100_000);
    done.abort();
    const kills = await killing;
    expect(kills).toBeGreaterThan(0);
    expect(results.filter(({ status }) => status === "cancelled")).toHaveLength(Math.floor(each / 2));
    await judge(world, { seed: random.seed, statuses: ["completed", "cancelled"] });

    const children = (await Promise.all(parents.map((run) => childrenOf(world, run)))).flat();
    expect(children.length).toBe(each);
    await expectListed(world, [...plain, ...talks, ...parents, ...children, ...asks, ...made]);
    await expectTogether(world, cluster, new Map(talks.map(({ id }, index) => [id, `chat-${index % 2}`])));
    expect((await drover.session("chat-0").transcript()).length).toBeGreaterThan(4);
    for (const run of [...plain, ...talks]) await deleted(world, run.id);
    const left = (await keysByMaster(cluster)).flat().map(runOf);
    expect(left.filter((id) => id?.startsWith("plain-") || id?.startsWith("talk-"))).toEqual([]);
    const fleetView = await drover.fleet();
    expect(fleetView.queues.map(({ name }) => name)).toEqual(["runs", "model", "tools", "tools-browser"]);
    expect(fleetView.owing.count).toBe(0);
    tellFigure("Q21", `${results.length} runs over ${shards} shards, ${kills} workers killed, all of them sound`);
  });

  test("[Q21] one shard works on a cluster, too, and then all keys are in one slot", async () => {
    const world = await open({ shards: 1 });
    await world.work();
    const runs = await Promise.all(
      ["one-a", "one-b"].map((id) => world.drover.start("e2e", `${id} tools`, { runId: id })),
    );
    await resultsOf(runs, 60_000);
    await judge(world);
    const own = (await keysByMaster(cluster)).flat().filter((key) => key.startsWith(world.prefix));
    expect(own.length).toBeGreaterThan(10);
    expect(new Set(await Promise.all(own.map(cluster.slotOf))).size).toBe(1);
  });

  test("[Q21] a prefix without a hash tag is refused by name", async () => {
    const list = async (more: object): Promise<unknown> => {
      const made = createDrover({ redis: cluster.url, prefix: "untagged", logger: createSilentLogger(), ...more });
      try {
        return await made.list();
      } finally {
        await made.close();
      }
    };
    for (const more of [{}, { shards: 3 }]) {
      await expect(list(more)).rejects.toThrow(/prefix.*\{untagged\}/s);
    }
    expect((await keysByMaster(cluster)).flat().filter((key) => key.startsWith("untagged"))).toEqual([]);
  });

  test("[Q21] a process that was told of another number of shards is refused", async () => {
    const world = await open();
    const other = createDrover({ redis: cluster.url, prefix: world.prefix, shards: 3, logger: createSilentLogger() });
    const refused = (): Promise<void> => expect(other.start("e2e", "hello")).rejects.toThrow(/has 6 shards.*told of 3/);
    await vi.waitFor(refused, inContact);
    await other.close();
  });
});

/** The runs that it handed work to, each of which has answered. */
async function childrenOf(world: World, run: RunHandle): Promise<RunHandle[]> {
  const ends = (await readFeed(world, run.id)).flatMap((event) => (event.type === "child_ended" ? [event] : []));
  expect(ends.map(({ status }) => status)).toEqual(["completed"]);
  return ends.map(({ childId }) => world.drover.get(childId));
}

async function openCallOf(run: RunHandle): Promise<string | undefined> {
  return (await run.status()).openCalls.find(({ state }) => state === "approval")?.callId;
}

/** All pages together name every run once, newest first, and the counts add up. */
async function expectListed({ drover }: World, runs: readonly RunHandle[]): Promise<void> {
  const listed: { runId: string; createdAt: number }[] = [];
  let cursor: string | undefined;
  do {
    const page = await drover.list({ limit: 7, ...(cursor === undefined ? {} : { cursor }) });
    expect(page.runs.length).toBeLessThanOrEqual(7);
    listed.push(...page.runs);
    cursor = page.cursor;
  } while (cursor !== undefined);
  expect(listed.map(({ runId }) => runId).toSorted()).toEqual(runs.map(({ id }) => id).toSorted());
  const times = listed.map(({ createdAt }) => createdAt);
  expect(times).toEqual(times.toSorted((a, b) => b - a));
  const counts = await drover.count();
  expect(Object.values(counts).reduce((sum, count) => sum + count, 0)).toBe(runs.length);
}

/** The keys of each run are in one slot, its session's; and the masters have equally many of the shards. */
async function expectTogether(world: World, cluster: RedisCluster, sessions: Map<string, string>): Promise<void> {
  const prefixes = shardPrefixes(world.prefix, shards);
  const byMaster = await keysByMaster(cluster);
  const slotsOf = new Map<string, Set<number>>();
  for (const key of byMaster.flat()) {
    const runId = runOf(key);
    if (runId !== undefined) slotsOf.set(runId, (slotsOf.get(runId) ?? new Set()).add(await cluster.slotOf(key)));
  }
  expect(slotsOf.size).toBeGreaterThan(10);
  for (const [runId, slots] of slotsOf) {
    expect({ runId, slots: slots.size }).toEqual({ runId, slots: 1 });
    const session = sessions.get(runId);
    if (session === undefined) continue;
    const prefix = prefixes[shardOf(session, shards)] ?? "";
    expect({ runId, slots: [...slots] }).toEqual({ runId, slots: [await cluster.slotOf(prefix)] });
  }
  // Every master has runs, and equally many of the shards.
  const held = byMaster.map((keys) =>
    keys.filter((key) => prefixes.some((prefix) => key.startsWith(`${prefix}:r:run:`))),
  );
  expect(held.every((keys) => keys.length > 0)).toBe(true);
  const owners = await Promise.all(prefixes.map(async (prefix) => cluster.primaryOf(await cluster.slotOf(prefix))));
  const shares = Map.groupBy(owners, ({ id }) => id);
  expect([...shares.values()].map((own) => own.length)).toEqual([2, 2, 2]);
}

/** Some may still have others of their session to tell. */
async function deleted({ drover }: World, runId: string): Promise<void> {
  await eventually(
    () =>
      drover.delete(runId).then(
        () => true,
        () => undefined,
      ),
    20_000,
  );
}
