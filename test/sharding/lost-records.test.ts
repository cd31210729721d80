// Catches: a lost or damaged record that stays in one of several shards, or takes a whole run of another one with it.
import { afterEach, beforeEach, expect, test } from "vitest";
import { shardOfStore } from "../../src/sharding/retention.ts";
import { shardOf } from "../../src/sharding/slots.ts";
import { at, created, newRun, runCreated } from "../contract/run-fixtures.ts";
import { type Shards, setUpShards } from "./setup.ts";

const count = 3;
const own = shardOf("run-a", count);
const session =
  Array.from({ length: 50 }, (_, index) => `chat-${index}`).find((id) => shardOf(id, count) !== own) ?? "";
const home = shardOf(session, count);

let shards: Shards;
beforeEach(() => {
  shards = setUpShards(count);
});
afterEach(() => shards.close());

const keysLeft = async (): Promise<unknown[]> =>
  (await Promise.all(shards.prefixes.map((prefix) => shards.cli("KEYS", `${prefix}:r:run:run-a*`)))).flat();

test.each(["fixed", "rev"])(
  "a damaged run away from its id's shard goes with the pointer to it: no %s",
  async (field) => {
    const run = newRun({ session, place: { state: "joined", round: 1, owedAt: 1 }, messageCount: 0 }, []);
    await shards.open().store.create(run, [], [runCreated(run)]);
    await shards.cli("HDEL", shards.keys[home]?.run("run-a").head ?? "", field);
    expect(await shards.open().store.removeDamaged("run-a")).toMatchObject({ why: expect.any(String) });
    expect((await keysLeft()).filter((key) => !String(key).includes(":void:"))).toEqual([]);
    const { store } = shards.open();
    expect(await store.create(run, [], [runCreated(run)])).toEqual({ created: true });
  },
);

test("what lies in another shard under the id of a whole run does not make that one damaged", async () => {
  const { store } = shards.open();
  const run = await created(store);
  await shards.cli("RPUSH", shards.keys[home]?.run("run-a").messages ?? "", "t {}");
  expect(await store.removeDamaged("run-a")).toBeNull();
  expect(await store.load("run-a")).toEqual(run);
});

test("each shard's sweeper drops what is owed there by nobody", async () => {
  const { store, placement } = shards.open();
  await created(store, { model: { attempt: 1, owedAt: 1 } });
  await shards.cli("DEL", shards.keys[own]?.run("run-a").head ?? "");
  const [mine, other] = [own, home].map((shard) => shardOfStore(store, placement, shard));
  expect(await other?.dropOwing("run-a")).toBe(false);
  expect(await mine?.owing(at + 100, 10)).toEqual(["run-a"]);
  expect(await mine?.dropOwing("run-a")).toBe(true);
  expect(await store.owing(at + 100, 10)).toEqual([]);
});
