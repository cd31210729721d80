import { afterEach, beforeEach, expect, test } from "vitest";
import { shardOf } from "../../src/sharding/slots.ts";
import { created, newRun, runCreated } from "../contract/run-fixtures.ts";
import { type Shards, setUpShards } from "./setup.ts";

let shards: Shards;
beforeEach(() => {
  shards = setUpShards();
});
afterEach(() => shards.close());

/** An id that belongs to another shard than the session. */
const session = "chat-1";
const away = Array.from({ length: 50 }, (_, index) => `input-${index}`).find(
  (id) => shardOf(id, 3) !== shardOf(session, 3),
) as string;

test("an input whose id is a run's in another shard gets a run of its own, as in one store", async () => {
  const { store } = shards.open();
  const active = newRun({ runId: "run-active" }, []);
  const run = { ...active, session, baseMessage: 0, place: { state: "joined" as const, round: 1, owedAt: 1 } };
  await store.create(run, [], [runCreated(run)]);
  const free = away.replace("input", "other");
  expect(await store.claimInput(session, free, "h")).toMatchObject({ runId: "run-active" });
  await created(store, { runId: away });
  expect(await shards.open().store.claimInput(session, away, "h")).toMatchObject({ runId: away, taken: false });
  // An input that was given before is given for good.
  await store.confirmInput(session, free, { runId: "run-active", inputHash: "h", taken: true });
  await created(store, { runId: free });
  expect(await store.claimInput(session, free, "h")).toMatchObject({ runId: "run-active", taken: true });
});
