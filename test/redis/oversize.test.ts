// Catches: a write that is too large for the server and is sent again for ever, with all others waiting behind it.
import { type AddressInfo, connect as connectTo, createServer } from "node:net";
import type { Redis } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import type { Message } from "../../src/core/message.ts";
import type { Run } from "../../src/core/run.ts";
import type { RunStore } from "../../src/ports.ts";
import type { ShardStore } from "../../src/ports-sharding.ts";
import { connect } from "../../src/redis/connection.ts";
import { createKeys } from "../../src/redis/keys.ts";
import { runScript } from "../../src/redis/read.ts";
import { createRedisShardStore } from "../../src/redis/shard-store.ts";
import { change, newRun, runCreated, user } from "../contract/run-fixtures.ts";
import { eventually } from "../support/eventually.ts";
import { startLossyRelay } from "../support/lossy-relay.ts";
import { startRedisCluster } from "../support/redis-cluster.ts";
import { startPrivateRedis } from "../support/redis-server.ts";

/** Longer than the way lasts while it is cut. */
const spin =
  "local function now() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end local from = now() while now() - from < 80 do end";
const keep = "redis.call('SET', KEYS[1], ARGV[1]) return {'kept'}";

test.each([
  ["says so", "--proto-max-bulk-len", "1048576"],
  ["cuts the connection", "--client-query-buffer-limit", "1mb"],
])(
  "a worker's write that is too large for a server which %s is refused, and what comes after it is done",
  async (_what, ...args) => {
    const server = await startPrivateRedis({ args });
    onTestFinished(() => server.stop());
    const connection = connect(server.url, { role: "worker" });
    onTestFinished(() => connection.close());
    const write = (key: string, text: string): Promise<unknown> =>
      connection.use((client) => runScript(client, keep, { keys: [key], args: [text] }));
    const large = write("large", "x".repeat(1_500_000));
    large.catch(() => {});
    const larger = write("larger", "x".repeat(1_600_000));
    const others = ["a", "b"].map((key) => write(key, "small"));
    await expect(large).rejects.toMatchObject({
      code: "too_large",
      message: expect.stringContaining("maxMessageBytes"),
    });
    await expect(larger).rejects.toMatchObject({ code: "too_large" });
    expect(await Promise.all(others)).toEqual([["kept"], ["kept"]]);
    expect(await (connection.client as Redis).exists("large", "a", "b")).toBe(2);
  },
);

test("a large write that is refused again and again while a cluster is down is made once that is up", async () => {
  const cluster = await startRedisCluster({ args: ["--cluster-require-full-coverage", "yes"] });
  onTestFinished(() => cluster.stop());
  const connection = connect(cluster.url, { role: "worker" });
  onTestFinished(() => connection.close());
  const write = (text: string): Promise<unknown> =>
    connection.use((client) => runScript(client, keep, { keys: ["{k}large"], args: [text] }));
  await write("small");
  const home = await cluster.primaryOf(await cluster.slotOf("{k}large"));
  const other = cluster.nodes.find((node) => node !== home);
  await other?.kill9();
  await eventually(async () => /cluster_state:fail/.test(String(await home.cli("CLUSTER", "INFO"))) || undefined);
  let refusals = 0;
  const enough = Promise.withResolvers<void>();
  connection.client.on("node error", (error: Error) => {
    refusals += /CLUSTERDOWN/.test(error.message) ? 1 : 0;
    if (refusals > 20) enough.resolve();
  });
  const large = write("x".repeat(1_500_000));
  await Promise.race([enough.promise, large]);
  await other?.restart();
  expect(await large).toEqual(["kept"]);
  expect(refusals).toBeGreaterThan(20);
});

test("a large write is made in the end over a way that was cut again and again, whatever was sent", async () => {
  const server = await startPrivateRedis({});
  onTestFinished(() => server.stop());
  const { port } = new URL(server.url);
  let cutsLeft = 20;
  const relay = createServer((near) => {
    const far = connectTo(Number(port), "127.0.0.1");
    near.pipe(far).pipe(near);
    const cut = (): void => void [near.destroy(), far.destroy()];
    for (const end of [near, far]) end.on("error", cut).on("close", cut);
    if (cutsLeft > 0) setTimeout(() => void [(cutsLeft -= 1), cut()], 60);
  });
  await new Promise<void>((resolve) => relay.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void relay.close());
  const address = relay.address() as AddressInfo;
  const connection = connect(`redis://127.0.0.1:${address.port}`, { role: "worker" });
  onTestFinished(() => connection.close());
  const input = { keys: ["large"], args: ["x".repeat(1_500_000)] };
  const large = connection.use((client) => runScript(client, `${spin} ${keep}`, input));
  expect(await large).toEqual(["kept"]);
  expect(cutsLeft).toBe(0);
});

test("[G1] a large commit that was made counts, although its connection was cut before each reply", async () => {
  const server = await startPrivateRedis({});
  onTestFinished(() => server.stop());
  /** A store over a way on which each reply to what holds the word is lost. */
  async function losing(word: string): Promise<ShardStore> {
    const relay = await startLossyRelay(server.url);
    onTestFinished(() => relay.close());
    relay.loseReplyTo(word, { times: 8 });
    const connection = connect(relay.url, { role: "worker" });
    onTestFinished(() => connection.close());
    return createRedisShardStore({ connection, keys: createKeys() });
  }
  const large = (word: string): Message => user(`${word} ${"x".repeat(600_000)}`);
  const create = (store: RunStore, run: Run, text: Message): ReturnType<RunStore["create"]> =>
    store.create(run, [text], [runCreated(run)]);
  const run = newRun();
  await create(await losing("none"), run, user("hello"));
  const [alone, other, sharded] = [newRun({ runId: "run-b" }), newRun(), newRun({ runId: "run-c" })];
  const append = [{ type: "message" as const, message: large("gamma") }];
  const next = change(run, {}, { append });
  const results = await Promise.all([
    losing("alpha").then((store) => create(store, alone, large("alpha"))),
    // Of a start that somebody else has made: its writer is told of the run that is there.
    losing("beta").then((store) => create(store, other, large("beta"))),
    losing("gamma").then((store) => store.commit(next)),
    losing("delta").then((store) => store.createUnclaimed(sharded, [large("delta")], [runCreated(sharded)])),
  ]);
  expect(results).toMatchObject([
    { created: true },
    { created: false, run: { runId: "run-a" } },
    { committed: true },
    { created: true },
  ]);
});
