import { expect, inject, test, vi } from "vitest";
import type { RunStore } from "../../src/ports.ts";
import { connect } from "../../src/redis/connection.ts";
import { createKeys, type Keys } from "../../src/redis/keys.ts";
import { createRedisRunStore } from "../../src/redis/run-store.ts";
import { createRedisSignals, type RedisSignals } from "../../src/redis/signals.ts";
import { created } from "../contract/run-fixtures.ts";
import { signalsContract } from "../contract/signals.contract.ts";
import { cliOf, deletePrefix, startTestRedis, testPrefix } from "../support/redis.ts";

const url = inject("redisUrl");
const cli = cliOf(url);

type Setup = { signals: RedisSignals; store: RunStore; keys: Keys; name: string; close(): Promise<void> };

async function start(): Promise<Setup> {
  const prefix = testPrefix();
  const keys = createKeys(prefix);
  const name = prefix.slice(1, -1);
  const connection = connect(url, { role: "worker" });
  const signals = createRedisSignals({ target: url, connection, keys, name });
  return {
    signals,
    store: createRedisRunStore({ connection, keys }),
    keys,
    name,
    async close() {
      await signals.close();
      await connection.close();
      await deletePrefix(url, prefix);
    },
  };
}

/** Cuts the connections of that name, from the server's side. */
async function kill(name: string): Promise<number> {
  const clients = String(await cli("CLIENT", "LIST")).split("\n");
  const ids = clients
    .filter((line) => line.includes(`name=${name} `))
    .map((line) => /\bid=(\d+)/.exec(line)?.[1] ?? "");
  for (const id of ids) await cli("CLIENT", "KILL", "ID", id);
  return ids.length;
}

signalsContract("Redis", async () => {
  const setup = await start();
  return {
    ...setup,
    listening: () => setup.signals.listening(),
    async interrupt() {
      if ((await kill(setup.name)) !== 1) throw new Error("there is no connection to cut");
    },
  };
});

test("a cut connection subscribes again to all and calls the listeners of runs, who may have missed something", async () => {
  const setup = await start();
  const [first, second] = [vi.fn<() => void>(), vi.fn<() => void>()];
  await setup.signals.onRun("run-a", first);
  const off = await setup.signals.onRun("run-b", second);
  off();
  const before = first.mock.calls.length;
  expect(await kill(setup.name)).toBe(1);
  await vi.waitFor(() => expect(first.mock.calls.length).toBeGreaterThan(before), { timeout: 5_000 });
  const after = first.mock.calls.length;
  await created(setup.store);
  await vi.waitFor(() => expect(first.mock.calls.length).toBeGreaterThan(after));
  expect(second).not.toHaveBeenCalled();
  await setup.close();
});

test("a new listener to announcements is told that it missed what came before", async () => {
  const setup = await start();
  const heard: (string | null)[] = [];
  setup.signals.onAnnounced((runId) => heard.push(runId));
  await vi.waitFor(() => expect(heard).toEqual([null]));
  setup.signals.onAnnounced((runId) => heard.push(runId));
  await vi.waitFor(() => expect(heard).toEqual([null, null]));
  await setup.close();
});

test("says whether announcements are heard: not before, not without its connection, and again after", async () => {
  const setup = await start();
  expect(setup.signals.isHearing()).toBe(false);
  const heard: (string | null)[] = [];
  setup.signals.onAnnounced((runId) => heard.push(runId));
  await vi.waitFor(() => expect(setup.signals.isHearing()).toBe(true));
  await kill(setup.name);
  await vi.waitFor(() => expect(setup.signals.isHearing()).toBe(false), { interval: 1 });
  await vi.waitFor(() => expect(setup.signals.isHearing()).toBe(true), { timeout: 5_000 });
  await setup.close();
});

test("one connection carries every subscription, and a channel nobody listens to is left", async () => {
  const setup = await start();
  const { signals, keys } = setup;
  const offs = await Promise.all(Array.from({ length: 50 }, (_, index) => signals.onRun(`run-${index}`, () => {})));
  signals.onAnnounced(() => {});
  await signals.listening();
  const clients = String(await cli("CLIENT", "LIST")).split("\n");
  expect(clients.filter((line) => line.includes(`name=${setup.name} `))).toHaveLength(1);
  const channels = async (): Promise<number> =>
    ((await cli("PUBSUB", "CHANNELS", `${keys.prefix}*`)) as string[]).length;
  expect(await channels()).toBe(51);
  for (const off of offs) off();
  await vi.waitFor(async () => expect(await channels()).toBe(1));
  await signals.close();
  await vi.waitFor(async () => expect(await channels()).toBe(0));
  await setup.close();
});

test("a listener that throws disturbs no other", async () => {
  const setup = await start();
  const listener = vi.fn<() => void>();
  await setup.signals.onRun("run-a", () => {
    throw new Error("a bug of the listener's");
  });
  await setup.signals.onRun("run-a", listener);
  const before = listener.mock.calls.length;
  await created(setup.store);
  await vi.waitFor(() => expect(listener.mock.calls.length).toBeGreaterThan(before));
  await setup.close();
});

test("listening fails at once when Redis is away, and heals when it is back", async () => {
  const redis = await startTestRedis({ own: true });
  const keys = createKeys(redis.prefix);
  await redis.kill9();
  const connection = connect(redis.url, { role: "producer" });
  const signals = createRedisSignals({ target: redis.url, connection, keys });
  const heard: (string | null)[] = [];
  signals.onAnnounced((runId) => heard.push(runId));
  await expect(signals.onRun("run-a", () => {})).rejects.toMatchObject({ code: "queue_unavailable" });
  await expect(signals.announce("run-a")).rejects.toMatchObject({ code: "queue_unavailable" });
  await redis.restart();
  await vi.waitFor(() => expect(heard).toEqual([null]), { timeout: 10_000 });
  await signals.listening();
  await signals.announce("run-b");
  await vi.waitFor(() => expect(heard).toEqual([null, "run-b"]));
  await signals.close();
  await connection.close();
  await redis.stop();
});

test("closed signals take no listener", async () => {
  const setup = await start();
  await setup.signals.close();
  await expect(setup.signals.onRun("run-a", () => {})).rejects.toMatchObject({ code: "stopped" });
  await setup.close();
});
