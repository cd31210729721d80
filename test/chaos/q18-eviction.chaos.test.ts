// Catches: a Redis that deletes locks, leases and runs when its memory runs short, and nobody is told.
import { describe, expect, onTestFinished, test } from "vitest";
import { examineRedis } from "../../src/cli/doctor/redis.ts";
import { createDroverServer } from "../../src/server/create-server.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { eventually } from "../support/eventually.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { startTestRedis, type TestRedis } from "../support/redis.ts";
import { problemsOf, textsOf } from "../support/transcript.ts";
import { spawnCliWorker, startCliWorker } from "../support/worker-process.ts";
import { makeWorld, resultsOf, runIdOf, type World } from "../support/world.ts";
import { isLong } from "./support/seed.ts";

const turnCount = 6;

function respond(request: FakeRequest): FakeReply {
  const turn = turnOf(request.body);
  const text = `${turn} of ${runIdOf(request)}`;
  if (turn === turnCount) return { text, delayMs: 50 };
  const toolCalls = ["look", "put", "post"].map((name) => ({
    name,
    arguments: { note: `${name}-${turn}`, takeMs: 20 },
  }));
  return { text, toolCalls, delayMs: 50 };
}

async function ownRedis(...args: string[]): Promise<TestRedis> {
  const server = await startTestRedis({ own: true, args });
  onTestFinished(() => server.stop());
  return server;
}

/** Asks a server whether it is ready, as a load balancer does. */
function readinessOf({ options }: World): () => Promise<{ status: number; body: string }> {
  const server = createDroverServer({
    redis: options.redisUrl,
    prefix: options.prefix,
    http: { keyless: true },
    logger: createSilentLogger(),
  });
  onTestFinished(() => server.close());
  return async () => {
    const response = await server.fetch(new Request("http://127.0.0.1/readyz"), { address: "127.0.0.1" });
    return { status: response.status, body: await response.text() };
  };
}

/** What may go at any time: locks, leases, live text, what workers tell, and BullMQ's own helpers. */
const mayExpire = /:live$|:lock$|:r:lease:|:r:gate:|:r:web:|:r:response(-events)?:|:(stalled|stray)-check$|:limiter$/;

/** Keys of ours that carry a time to live and are no such helpers. */
async function expiringKeys({ redis, prefix }: World): Promise<string[]> {
  const found: string[] = [];
  for await (const keys of redis.scanStream({ match: `${prefix}*`, count: 1_000 })) {
    const names = (keys as string[]).filter((key) => !mayExpire.test(key));
    const left = await Promise.all(names.map((key) => redis.pttl(key)));
    found.push(...names.filter((_key, index) => (left[index] ?? -1) >= 0));
  }
  return found;
}

describe("a worker that starts on a Redis which evicts", () => {
  test.each(["volatile-lru", "allkeys-lru"])("[Q18] is refused under %s, naming the setting", async (policy) => {
    const server = await ownRedis("--maxmemory-policy", policy);
    const world = await makeWorld({ respond, server });
    const worker = spawnCliWorker(world.options);
    expect((await worker.exit).code).toBe(1);
    expect(await worker.printed).toMatch(/maxmemory-policy is ".*-lru".*Set it to "noeviction"/);
    const doctor = await examineRedis(server.url, world.prefix);
    expect(doctor.find(({ check }) => check === "maxmemory-policy")).toMatchObject({ state: "error" });
    expect(await readinessOf(world)()).toMatchObject({
      status: 503,
      body: expect.stringContaining("maxmemory-policy"),
    });
  });

  test("[Q18] works where the host forbids CONFIG and INFO, and warns of what it cannot see", async () => {
    const server = await ownRedis();
    await server.cli("ACL", "SETUSER", "limited", "on", ">pw", "~*", "&*", "+@all", "-config", "-info");
    const world = await makeWorld({ respond, server });
    const redisUrl = server.url.replace("redis://", "redis://limited:pw@");
    const worker = await startCliWorker({ ...world.options, redisUrl });
    const run = await world.drover.start("e2e", "blocked-1 go", { runId: "blocked-1" });
    expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed" });
    worker.terminate();
    expect((await worker.exit).code).toBe(0);
    expect(await worker.printed).toMatch(/does not tell its eviction policy. It must be \\"noeviction\\"/);
  });
});

test("[Q18] a switch to volatile-lru and a squeeze of memory lose no run; readiness, doctor and log tell of it", async () => {
  const server = await ownRedis();
  const world = await makeWorld({ respond, server, toolTimeoutMs: 2_000 });
  const workers = await Promise.all([world.work(), world.work()]);
  const readiness = readinessOf(world);
  expect(await readiness()).toMatchObject({ status: 200 });
  const ids = Array.from({ length: isLong ? 200 : 20 }, (_, index) => `evicted-${index}`);
  const runs = await Promise.all(ids.map((runId) => world.drover.start("e2e", `${runId} go`, { runId })));
  const held = await world.drover.start("e2e", "held-1 go", { runId: "held-1", delayMs: 600_000 });
  await world.server.received(ids.length * 2);
  expect(await expiringKeys(world)).toEqual([]);

  await world.redis.config("SET", "maxmemory-policy", "volatile-lru");
  const evictedOf = async (): Promise<number> =>
    Number(/evicted_keys:(\d+)/.exec(await world.redis.info("stats"))?.[1]);
  await world.redis.config("SET", "maxmemory", "1");
  await eventually(async () => ((await evictedOf()) > 0 ? true : undefined));
  await world.redis.config("SET", "maxmemory", "0");
  const noticed = await eventually(async () => {
    const answer = await readiness();
    return answer.status === 503 ? answer.body : undefined;
  });
  expect(noticed).toContain("volatile-lru");
  const doctor = await examineRedis(server.url, world.prefix);
  expect(doctor.find(({ check }) => check === "maxmemory-policy")).toMatchObject({ state: "error" });

  const results = await resultsOf(runs, 60_000);
  expect(results.map(({ status }) => status)).toEqual(ids.map(() => "completed"));
  for (const run of runs) {
    const transcript = await run.transcript();
    expect(problemsOf(transcript)).toEqual([]);
    expect(textsOf(transcript)).toEqual(Array.from({ length: turnCount }, (_, index) => `${index + 1} of ${run.id}`));
  }
  const posts = world.ledger.entries().filter(({ tool }) => tool === "post");
  expect(new Set(posts.map(({ key }) => key)).size).toBe(posts.length);
  expect(await held.status()).toMatchObject({ status: "queued" });
  const told = (): true | undefined =>
    workers.every((worker) => worker.logLines().some((line) => line.includes("volatile-lru"))) || undefined;
  // Every 30 s; in the short form the connection is cut, which makes a worker look at once.
  if (!isLong) await server.cli("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
  await eventually(told, 45_000);
});
