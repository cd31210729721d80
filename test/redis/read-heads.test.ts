// Catches: an outage that is taken for damaged records, so that who asks is told that there are no runs.
import { afterEach, beforeEach, expect, test } from "vitest";
import { connect, type RedisConnection } from "../../src/redis/connection.ts";
import { createRedisRunStore } from "../../src/redis/run-store.ts";
import { change, committed, created } from "../contract/run-fixtures.ts";
import { collectWarnings, interrupted, type StoreSetup, setUpStore } from "./setup.ts";

let setup: StoreSetup;
beforeEach(async () => {
  setup = setUpStore();
  for (const runId of ["a", "b", "c"]) await created(setup.store, { runId, session: "s", tenant: "t" });
});
afterEach(() => setup.close());

/** A store of a producer whose connection breaks when it asks for the n-th time. */
function breaking(n: number): { store: StoreSetup["store"]; warnings: string[]; connection: RedisConnection } {
  const { keys, url } = setup;
  const connection = connect(url, { role: "producer" });
  const broken = interrupted(connection, n, (client) => client.disconnect());
  const { logger, warnings } = collectWarnings();
  return { store: createRedisRunStore({ connection: broken, keys, logger }), warnings, connection };
}

test.each([
  ["its members", {}, 1],
  ["its heads", {}, 2],
  ["what a filter looks at", { session: "s", tenant: "t" }, 3],
  ["the heads that fit", { session: "s", tenant: "t" }, 4],
])("a listing during which the connection is lost is an error: %s", async (_, filter, n) => {
  const { store, warnings, connection } = breaking(n);
  await expect(store.list(filter)).rejects.toMatchObject({ code: "queue_unavailable" });
  expect(warnings).toEqual([]);
  await connection.close();
});

test("a removal during which the connection is lost is an error", async () => {
  for (const runId of ["a", "b"]) {
    const run = await setup.store.load(runId);
    if (run) await committed(setup.store, change(run, { status: "completed", endedAt: 1 }));
  }
  const { store, warnings, connection } = breaking(2);
  await expect(store.removeEnded("completed", 10, 10)).rejects.toMatchObject({ code: "queue_unavailable" });
  expect(warnings).toEqual([]);
  await connection.close();
});

test.each([
  ["all", {}],
  ["those that fit", { session: "s", tenant: "t" }],
])("a record of another type hides no other: %s", async (_, filter) => {
  const { store, cli, keys, warnings } = setup;
  await cli("DEL", keys.run("b").head);
  await cli("SET", keys.run("b").head, "a string");
  expect((await store.list(filter)).runs.map(({ runId }) => runId).toSorted()).toEqual(["a", "c"]);
  expect(warnings).toEqual([expect.stringMatching(/left out of a listing.*"runId":"b"/)]);
});
