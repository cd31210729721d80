// Catches: a pause that a full Redis refuses, a reply that got lost taken for a refusal, and a pause that is not one's own ended.
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { connect } from "../../src/redis/connection.ts";
import { createRedisFleetSwitch } from "../../src/redis/fleet-switch.ts";
import { createRedisPresence } from "../../src/redis/presence.ts";
import { worker } from "../contract/presence.contract.ts";
import { startLossyRelay } from "../support/lossy-relay.ts";
import { startTestRedis } from "../support/redis.ts";
import { interrupted, type StoreSetup, setUpStore } from "./setup.ts";

let setup: StoreSetup;
beforeEach(() => {
  setup = setUpStore();
});
afterEach(() => setup.close());

const asked = { by: "ann", reason: "an incident", at: 1 };
const other = { by: "bob", reason: "another one", at: 2 };

test("is paused by the first who asks, and resumed by whoever does", async () => {
  const fleet = createRedisFleetSwitch(setup);
  expect(await fleet.read()).toBeUndefined();
  expect(await fleet.resume()).toBe(false);
  const both = await Promise.all([fleet.pause(asked), createRedisFleetSwitch(setup).pause(asked)]);
  expect(both.map(({ applied }) => applied).toSorted()).toEqual([false, true]);
  expect(both.map(({ pause }) => pause)).toEqual([asked, asked]);
  expect(await fleet.pause(other)).toEqual({ pause: asked, applied: false });
  expect(await fleet.read()).toEqual(asked);
  expect(await createRedisFleetSwitch(setup).resume()).toBe(true);
  expect(await fleet.read()).toBeUndefined();
});

test("is resumed as an older version paused it", async () => {
  const fleet = createRedisFleetSwitch(setup);
  await setup.cli("SET", setup.keys.fleetPause, JSON.stringify(asked));
  expect(await fleet.pause(other)).toEqual({ pause: asked, applied: false });
  expect(await fleet.resume()).toBe(true);
  expect(await setup.cli("EXISTS", setup.keys.fleetPause)).toBe(0);
});

test("a reply that got lost changes no answer", async () => {
  const relay = await startLossyRelay(setup.url);
  onTestFinished(() => relay.close());
  const connection = connect(relay.url, { role: "producer" });
  onTestFinished(() => connection.close());
  await connection.ready();
  const fleet = createRedisFleetSwitch({ connection, keys: setup.keys });
  relay.loseReplyTo('"by":"ann"');
  expect(await fleet.pause(asked)).toEqual({ pause: asked, applied: true });
  relay.loseReplyTo('"by":"ann"');
  expect(await fleet.resume()).toBe(true);
  expect(relay.lost()).toBe(2);
  expect(await fleet.read()).toBeUndefined();
});

test("a pause that comes while an earlier one is ended stays", async () => {
  const fleet = createRedisFleetSwitch(setup);
  await fleet.pause(asked);
  // After it was read.
  const connection = interrupted(setup.connection, 2, async () => {
    await fleet.resume();
    await fleet.pause(other);
  });
  const slow = createRedisFleetSwitch({ connection, keys: setup.keys });
  expect(await slow.resume()).toBe(true);
  expect(await fleet.read()).toEqual(other);
});

test("a Redis that is full takes a pause, what workers tell of themselves, and the end of it", async () => {
  const redis = await startTestRedis({ own: true });
  onTestFinished(() => redis.stop());
  const own = setUpStore(redis.url, redis.prefix);
  onTestFinished(() => own.connection.close());
  await redis.cli("CONFIG", "SET", "maxmemory", "1");
  await expect(own.cli("SET", "x", "y")).rejects.toThrow(/OOM/);
  const fleet = createRedisFleetSwitch(own);
  expect(await fleet.pause(asked)).toEqual({ pause: asked, applied: true });
  expect(await fleet.read()).toEqual(asked);
  const presence = createRedisPresence(own);
  for (const paused of [false, true])
    await presence.tell(worker("w1", { paused }), [{ name: "a", model: "m", tools: [], seenAt: 1 }], [], 60_000);
  expect(await presence.workers()).toMatchObject([{ id: "w1", paused: true }]);
  await presence.leave("w1");
  expect(await presence.workers()).toEqual([]);
  expect(await fleet.resume()).toBe(true);
  expect(await fleet.read()).toBeUndefined();
});
