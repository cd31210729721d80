// Catches: an acknowledgement of what a failover could take back, and a wait that costs something where nobody asked for one.
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { z } from "zod";
import type { DurabilityTarget } from "../../src/core/durability.ts";
import { defineAgent } from "../../src/define-agent.ts";
import { createDrover, type DroverOptions } from "../../src/drover.ts";
import { createRedisDurable } from "../../src/redis/durable.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { scriptedModel } from "../../src/testing/scripted-model.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { newRun, runCreated, user } from "../contract/run-fixtures.ts";
import { cliOf, testPrefix } from "../support/redis.ts";
import { untilTrue } from "../support/redis-cluster.ts";
import { freePort, type PrivateServer, startPrivateRedis } from "../support/redis-server.ts";
import { collectWarnings, type StoreSetup, setUpStore } from "./setup.ts";

let primary: PrivateServer;
let replica: PrivateServer;
let cli: ReturnType<typeof cliOf>;

beforeAll(async () => {
  const port = await freePort();
  primary = await startPrivateRedis({ port, args: ["--repl-diskless-sync-delay", "0"] });
  replica = await startPrivateRedis({ args: ["--replicaof", "127.0.0.1", String(port)] });
  cli = cliOf(primary.url);
  // Not only connected: it has said how far it has come, so that it also answers when it is asked.
  const hasAnswered = async (): Promise<boolean> =>
    /state=online,offset=[1-9]/.test(String(await cli("INFO", "replication")));
  await untilTrue(hasAnswered, "the replica");
});

afterAll(async () => {
  await Promise.all([primary.stop(), replica.stop()]);
});

const oneReplica: DurabilityTarget = { replicas: 1, disks: undefined, timeoutMs: 300 };

function open(setup: StoreSetup, target: DurabilityTarget = oneReplica): ReturnType<typeof createRedisDurable> {
  return createRedisDurable({ redis: primary.url, target, keysOf: () => setup.keys });
}

/** While the replica hears nothing. */
async function whileCutOff<T>(act: () => Promise<T>): Promise<T> {
  replica.freeze();
  try {
    return await act();
  } finally {
    replica.thaw();
  }
}

function failure(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => "it did not fail",
    (error: unknown) => error,
  );
}

describe("what is committed", () => {
  test("is confirmed once a replica has it, many at once in a few rounds", async () => {
    const setup = setUpStore(primary.url);
    const durable = open(setup);
    const runs = Array.from({ length: 200 }, (_, index) => newRun({ runId: `run-${index}` }));
    await Promise.all(runs.map((run) => setup.store.create(run, [user("hi")], [runCreated(run)])));
    await durable.confirm(runs[0] as (typeof runs)[0]); // the connection is up
    const before = await waits();
    await Promise.all(runs.map((run) => durable.confirm(run)));
    expect((await waits()) - before).toBeLessThanOrEqual(3);
    await Promise.all([durable.close(), setup.close()]);
  });

  test("is not confirmed while no replica answers, and is once one does", async () => {
    const setup = setUpStore(primary.url);
    const durable = open(setup);
    const run = newRun({});
    await whileCutOff(async () => {
      await setup.store.create(run, [user("hi")], [runCreated(run)]);
      const startedAt = performance.now();
      expect(await failure(durable.confirm(run))).toMatchObject({
        code: "queue_unavailable",
        message: expect.stringMatching(/not on 1 replica after 300 ms.*not acknowledged.*do the same again/),
      });
      expect(performance.now() - startedAt).toBeLessThan(5_000);
    });
    await durable.confirm(run);
    await Promise.all([durable.close(), setup.close()]);
  });

  test("and is not there, or is another's with the same number, counts as lost", async () => {
    const setup = setUpStore(primary.url);
    const durable = open(setup);
    const run = newRun({});
    await setup.store.create(run, [user("hi")], [runCreated(run)]);
    const lost = { code: "queue_unavailable", message: expect.stringMatching(/was lost.*Do the same again/) };
    expect(await failure(durable.confirm({ ...run, runId: "run-other" }))).toMatchObject(lost);
    expect(await failure(durable.confirm({ ...run, token: "another" }))).toMatchObject(lost);
    expect(await failure(durable.confirm({ ...run, revision: run.revision + 1 }))).toMatchObject(lost);
    await durable.confirm({ ...run, revision: run.revision - 1, token: "before" }); // gone on since
    await Promise.all([durable.close(), setup.close()]);
  });

  test("on a server without WAITAOF is refused with what to do", async () => {
    const setup = setUpStore(primary.url);
    const durable = open(setup, { replicas: 0, disks: { own: 1, replicas: 0 }, timeoutMs: 300 });
    const run = newRun({});
    await setup.store.create(run, [user("hi")], [runCreated(run)]);
    const hasIt = Number((await cli("COMMAND", "INFO", "WAITAOF").then((told) => (told as unknown[])[0])) ? 1 : 0);
    const ended = await failure(durable.confirm(run));
    if (hasIt) expect(ended).toBe("it did not fail");
    else expect(ended).toMatchObject({ code: "unsupported", message: expect.stringMatching(/fsync needs Redis 7\.2/) });
    await Promise.all([durable.close(), setup.close()]);
  });
});

/** How many WAITs the server has had. */
async function waits(): Promise<number> {
  const stats = String(await cli("INFO", "commandstats"));
  return Number(/cmdstat_wait:calls=(\d+)/.exec(stats)?.[1] ?? 0);
}

describe("a drover with durability", () => {
  const ran: string[] = [];
  const pay = defineTool({
    name: "pay",
    description: "Pays.",
    effect: "write",
    parameters: z.object({ amount: z.number() }),
    execute: async ({ amount }, { attempt }) => {
      ran.push(`${amount}, attempt ${attempt}`);
      return "paid";
    },
  });
  const make = (options: Partial<DroverOptions>): ReturnType<typeof createDrover> =>
    createDrover({
      redis: primary.url,
      prefix: testPrefix(),
      logger: createSilentLogger(),
      agents: [
        defineAgent({
          name: "payer",
          instructions: "Pay.",
          model: scriptedModel([{ toolCalls: [{ name: "pay", arguments: { amount: 5 } }] }, "done"]),
          tools: [pay],
        }),
      ],
      ...options,
    });

  test("acknowledges no start while no replica answers; sent again afterwards it is the same run", async () => {
    const drover = make({ durability: { replicas: 1, timeoutMs: 300 } });
    await whileCutOff(async () => {
      const refusal = { code: "queue_unavailable" };
      expect(await failure(drover.start("payer", "pay", { runId: "run-1" }))).toMatchObject(refusal);
      // It is there, and that is no acknowledgement either.
      expect(await failure(drover.start("payer", "pay", { runId: "run-1" }))).toMatchObject(refusal);
      expect(await failure(drover.get("run-1").cancel())).toMatchObject(refusal);
      expect(await failure(drover.get("run-1").cancel())).toMatchObject(refusal);
    });
    expect((await drover.start("payer", "pay", { runId: "run-1" })).id).toBe("run-1");
    expect(await drover.get("run-1").cancel()).toBe(false);
    expect(await drover.count()).toMatchObject({ cancelled: 1 });
    await drover.close();
  });

  test("begins no tool that may not run again until its start is safe, and then once", async () => {
    const { logger, warnings } = collectWarnings();
    const drover = make({ logger, durability: { replicas: 1, timeoutMs: 300 } });
    const run = await drover.start("payer", "pay");
    ran.length = 0;
    await whileCutOff(async () => {
      await drover.work();
      await untilTrue(async () => warnings.some((line) => line.startsWith("tool failed")), "the start to be put off");
      expect(ran).toEqual([]);
    });
    expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed", output: "done" });
    expect(ran).toEqual([expect.stringMatching(/^5, attempt [2-9]$/)]);
    await drover.close();
  });

  test("without it nothing waits, and there is no connection more", async () => {
    const names = async (): Promise<string> => String(await cli("CLIENT", "LIST"));
    const before = await waits();
    const drover = make({});
    await drover.work();
    const run = await drover.start("payer", "pay");
    await run.result({ timeoutMs: 20_000 });
    expect((await waits()) - before).toBe(0);
    expect(await names()).not.toContain("drover-durability");
    await drover.close();
  });

  test("is refused with what is wrong in it", () => {
    expect(() => make({ durability: { replicas: -1 } })).toThrow(/durability\.replicas/);
    expect(() => make({ durability: { replica: 1 } as object })).toThrow(/durability: .*replica/);
  });

  test("a client of a server without replicas hears it at the start of its worker", async () => {
    const warned: string[] = [];
    const logger = { ...createSilentLogger(), warn: (_: object, message: string) => void warned.push(message) };
    const drover = make({ redis: inject("redisUrl"), logger, durability: { replicas: 2 } });
    await drover.work();
    expect(warned.join()).toMatch(/durability waits for 2 replicas, but 0 are connected/);
    await drover.close();
  });
});

test("a copied instance is asked too", async () => {
  const setup = setUpStore(primary.url);
  const given = new Redis(primary.url, { lazyConnect: true });
  const durable = createRedisDurable({ redis: given, target: oneReplica, keysOf: () => setup.keys });
  const run = newRun({});
  await setup.store.create(run, [user("hi")], [runCreated(run)]);
  expect(await failure(durable.confirm(run))).toBe("it did not fail");
  await Promise.all([durable.close(), setup.close()]);
});
