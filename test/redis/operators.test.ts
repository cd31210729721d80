import { afterEach, beforeEach, expect, test } from "vitest";
import type { DroverError } from "../../src/core/errors.ts";
import { createRedisKeyStore } from "../../src/redis/key-store.ts";
import { createRedisPresence } from "../../src/redis/presence.ts";
import { createRedisResponseStore } from "../../src/redis/response-store.ts";
import { keyStoreContract } from "../contract/key-store.contract.ts";
import { presenceContract, worker } from "../contract/presence.contract.ts";
import { responseStoreContract } from "../contract/response-store.contract.ts";
import { collectWarnings, type StoreSetup, setUpStore } from "./setup.ts";

const pass = (): void => {};

presenceContract("Redis", async () => {
  const setup = setUpStore();
  return { presence: createRedisPresence(setup), pass, close: setup.close };
});

keyStoreContract("Redis", async () => {
  const setup = setUpStore();
  return { keys: createRedisKeyStore(setup), pass, close: setup.close };
});

responseStoreContract("Redis", async () => {
  const setup = setUpStore();
  return { responses: createRedisResponseStore(setup), pass, close: setup.close };
});

let setup: StoreSetup;
beforeEach(() => {
  setup = setUpStore();
});
afterEach(() => setup.close());

/** The code and message of what reading rejects with. */
async function damageOf(reading: Promise<unknown>): Promise<string> {
  const error = (await reading.catch((reason: unknown) => reason)) as DroverError;
  return `${error.name} ${error.code} ${error.message}`;
}

test("a record that cannot be read is an error that names its key and holds none of its content", async () => {
  const { keys, cli } = setup;
  const [store, responses] = [createRedisKeyStore(setup), createRedisResponseStore(setup)];
  const { head } = keys.response("resp_1");
  await cli("HSET", keys.accessKeys, "k1", '{"id":"k1","scopes":["canary"]}');
  await cli("SET", keys.webSession("h"), "[canary]");
  await cli("HSET", head, "record", '{"id":"canary"}');
  const mine = { id: "resp_1", runId: "run-a", createdAt: 1, afterSeq: 0, request: {} };
  const reads: [Promise<unknown>, string][] = [
    [store.get("k1"), keys.accessKeys],
    [store.list(), keys.accessKeys],
    [store.getSession("h"), keys.webSession("h")],
    [responses.get("resp_1"), head],
    [responses.create(mine), head],
  ];
  for (const [reading, key] of reads) {
    const damage = await damageOf(reading);
    expect(damage).toContain("DroverError invalid");
    expect(damage).toContain(`(key ${key})`);
    expect(damage).not.toContain("canary");
  }
});

test("what workers told and cannot be read hides nothing else, and is named in the log without its content", async () => {
  const { keys, cli } = setup;
  const { told, agents } = keys.presence;
  const { logger, warnings } = collectWarnings();
  const presence = createRedisPresence({ ...setup, logger });
  const limit = (name: string) => ({ key: `tool:${name}`, kind: "tool" as const, name });
  const agent = (name: string) => ({ name, model: "m", tools: [], seenAt: 1 });
  await presence.tell(worker("w1"), [agent("a"), agent("b"), agent("c")], [limit("x")], 60_000);
  for (const id of ["w2", "w3", "w4"]) await presence.tell(worker(id), [], [], 60_000);
  await cli("HSET", told, "w2", "canary {");
  const limits = [limit("y"), { ...limit("z"), kind: "canary" }];
  await cli("HSET", told, "w3", JSON.stringify({ worker: "canary", gates: limits }));
  await cli("HSET", told, "w4", JSON.stringify({ worker: worker("w4"), gates: "canary" }));
  await cli("HSET", agents, "a", "canary {", "b", '{"name":"canary"}');
  expect(await presence.workers()).toEqual([worker("w1"), worker("w4")]);
  expect(await presence.gates()).toEqual([limit("x"), limit("y")]);
  expect(await presence.agents()).toEqual([agent("c")]);
  const named = [
    ["worker w2", "worker w3", "a limit of worker w3", "worker w4"].map((what) => `${what} (key ${told})`),
    ["agent a", "agent b"].map((what) => `${what} (key ${agents})`),
  ].flat();
  for (const name of named) expect(warnings.join("\n")).toContain(name);
  expect(warnings.join()).not.toContain("canary");
});

test("workers that are gone leave nothing behind but their agents", async () => {
  const { keys, cli } = setup;
  const presence = createRedisPresence(setup);
  const agent = { name: "a", model: "m", tools: [], seenAt: 1 };
  await presence.tell(worker("w1"), [agent], [], 1);
  await expect.poll(() => presence.workers()).toEqual([]);
  await presence.tell(worker("w2"), [], [], 60_000);
  expect(await cli("HKEYS", keys.presence.told)).toEqual(["w2"]);
  expect(await cli("ZRANGE", keys.presence.until, "0", "-1")).toEqual(["w2"]);
  await presence.leave("w2");
  expect(await cli("KEYS", `${keys.prefix}*`)).toEqual([keys.presence.agents]);
});

test("no id of a response reaches another one's events", async () => {
  const responses = createRedisResponseStore(setup);
  const mine = { id: "resp_1", runId: "run-a", createdAt: 1, afterSeq: 0, request: {} };
  await responses.create(mine);
  await responses.append("resp_1", 0, ["mine"]);
  for (const id of ["resp_1:events", "-events:resp_1", "resp_1-events"]) {
    expect(await responses.get(id)).toBeUndefined();
    expect(await responses.read(id, 0, 9)).toEqual([]);
    expect(await responses.remove(id)).toBe(false);
  }
  expect(await responses.read("resp_1", 0, 9)).toEqual(["mine"]);
});
