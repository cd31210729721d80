import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { makeRejectedRun } from "../../src/core/new-run.ts";
import type { Run } from "../../src/core/run.ts";
import type { RunStore } from "../../src/ports.ts";
import type { Created, ShardStore } from "../../src/ports-sharding.ts";
import { shardOf } from "../../src/sharding/slots.ts";
import { createRandom, type Random } from "../chaos/support/seed.ts";
import { at, change, committed, newRun, nextToken, runCreated, trace } from "../contract/run-fixtures.ts";
import { type Shards, setUpShards } from "./setup.ts";

const count = 3;
const runId = "run-a";
const own = shardOf(runId, count);

/** Sessions of which the first is where the run's id belongs, and the others are in each of the other shards. */
const sessions = Array.from({ length: count }, (_, offset) => {
  const wanted = (own + offset) % count;
  return Array.from({ length: 50 }, (_, index) => `chat-${index}`).find((id) => shardOf(id, count) === wanted) ?? "";
});
const [here = "", there = "", beyond = ""] = sessions;

/** A run by that id, in a session or in none: each is another input. */
function runIn(session?: string): Run {
  const run = newRun({ runId, inputHash: `hash of ${session ?? "none"}` }, []);
  return session === undefined
    ? run
    : { ...run, session, baseMessage: 0, place: { state: "joined", round: 1, owedAt: 1 } };
}

describe("an id over all shards", () => {
  let shards: Shards;
  beforeEach(() => {
    shards = setUpShards(count);
  });
  afterEach(() => shards.close());

  const create = (store: RunStore, run: Run): Promise<Created> => store.create(run, [], [runCreated(run)]);
  const keysOf = async (shard: number): Promise<string[]> =>
    ((await shards.cli("KEYS", `${shards.prefixes[shard]}:r:run:*`)) as string[]).map((key) =>
      key.slice(`${shards.prefixes[shard]}:r:run:`.length),
    );
  const anEnd = async (store: RunStore, run: Run): Promise<Run> =>
    committed(store, change(run, { status: "completed", model: undefined, place: undefined, endedAt: at }));

  test("a run of a session lives with it, and is found by its id from any process", async () => {
    for (const session of [there, beyond, here, undefined]) {
      const first = shards.open().store;
      const run = runIn(session);
      expect(await create(first, run)).toEqual({ created: true });
      const home = shardOf(session ?? runId, count);
      expect(await keysOf(home)).toContain(runId);
      expect(await keysOf(own)).toContain(home === own ? runId : `${runId}:at`);
      const other = shards.open().store;
      expect(await other.load(runId)).toEqual(run);
      expect(await other.loadWithLastMessage(runId)).toEqual({ run, last: undefined });
      expect(await other.readFeed(runId, 0, 9)).toEqual([runCreated(run)]);
      expect(await shards.open().store.readFeed(runId, 0, 9)).toEqual([runCreated(run)]);
      const ended = await anEnd(shards.open().store, run);
      expect(await shards.open().store.remove(ended)).toBe(true);
      expect(await shards.open().store.load(runId)).toBeNull();
      const left = (await Promise.all(shards.prefixes.map((_, shard) => keysOf(shard)))).flat();
      expect(left.filter((key) => !key.includes(":void:"))).toEqual([]);
    }
  });

  test("is taken once: whoever comes with another session is shown the run there is", async () => {
    for (const session of [there, undefined]) {
      const run = runIn(session);
      await create(shards.open().store, run);
      for (const other of [undefined, here, there, beyond]) {
        const again = runIn(other);
        expect(await create(shards.open().store, again)).toEqual({ created: false, run });
      }
      // The same creation sent again knows itself.
      expect(await create(shards.open().store, run)).toEqual({ created: true });
      const { store } = shards.open();
      await store.remove(await anEnd(store, run));
    }
  });

  test("of a process that remembers where a run was is found where it is now", async () => {
    const { store } = shards.open();
    const first = runIn(there);
    await create(store, first);
    const elsewhere = shards.open().store;
    await elsewhere.remove(await anEnd(elsewhere, first));
    const second = runIn();
    await create(elsewhere, second);
    expect(await store.commit(change(first))).toEqual({ committed: false, run: second });
    expect(await store.load(runId)).toEqual(second);
  });

  test("a rejected record holds it in no shard", async () => {
    const { store } = shards.open();
    const rejected = makeRejectedRun({ runId, agent: "a", reason: "bad", trace, at, token: nextToken() });
    await store.create(
      rejected,
      [],
      [{ seq: 1, at, turn: 0, type: "run_rejected", error: { code: "r", message: "" } }],
    );
    const run = runIn(there);
    expect(await create(store, run)).toEqual({ created: true });
    expect((await store.list({})).runs).toEqual([run]);
    expect(await create(store, rejected)).toEqual({ created: false, run });
  });

  test("a pointer that was lost is put back, and the run is found without it", async () => {
    const run = runIn(there);
    await create(shards.open().store, run);
    await shards.cli("DEL", `${shards.prefixes[own]}:r:run:${runId}:at`);
    expect(await shards.open().store.load(runId)).toEqual(run);
    expect(await keysOf(own)).toEqual([`${runId}:at`]);
    expect(await create(shards.open().store, runIn())).toEqual({ created: false, run });
  });

  test("retention takes pointers along", async () => {
    const { store } = shards.open();
    for (const id of ["run-1", "run-2", "run-3", "run-4", "run-5"]) {
      const run = { ...runIn(there), runId: id };
      await create(store, run);
      await anEnd(store, run);
    }
    const { removed, kept } = await store.removeEnded("completed", at + 1, 3);
    expect([removed.length, kept]).toEqual([3, 0]);
    expect((await store.removeEnded("completed", at + 1, 9)).removed).toHaveLength(2);
    const left = (await Promise.all(shards.prefixes.map((_, shard) => keysOf(shard)))).flat();
    expect(left.filter((key) => !key.includes(":void:"))).toEqual([]);
  });

  test.each(Array.from({ length: 60 }, (_, seed) => seed))(
    "is one run's, whoever dies where (seed %i)",
    async (seed) => {
      const random = createRandom(seed);
      const schedule = createSchedule(random);
      const actors = Array.from({ length: random.between(2, 4) }, () => {
        const session = random.pick([undefined, here, there, beyond]);
        const actor = schedule.join();
        const { store } = shards.open((one) => scheduled(one, actor.step));
        const work = async (): Promise<Created> => {
          const run = runIn(session);
          const result = await create(store, run);
          if (result.created && random.next() < 0.3) await store.remove(await anEnd(store, run));
          return result;
        };
        return actor.over(work());
      });
      await schedule.run();
      await Promise.all(actors);

      const held = await Promise.all(shards.prefixes.map(async (_, shard) => (await keysOf(shard)).includes(runId)));
      expect(held.filter(Boolean).length).toBeLessThanOrEqual(1);
      const found = await shards.open().store.load(runId);
      expect(found === null).toBe(!held.includes(true));
      // Whatever was left behind, the id can be had, by anybody.
      const after = runIn(random.pick([undefined, here, there, beyond]));
      const last = await create(shards.open().store, after);
      expect(last).toEqual(found ? { created: false, run: found } : { created: true });
      expect(await shards.open().store.load(runId)).toEqual(found ?? after);
    },
  );
});

type Actor = {
  /** Waits for one's turn to do something; never ends for one that has died. */
  step(): Promise<void>;
  /** Resolves when it has done its work, or died. */
  over(work: Promise<unknown>): Promise<void>;
};

/** Lets one of several actors make its next move at a time, chosen by `random`; now and then one dies before it. */
function createSchedule(random: Random): { join(): Actor; run(): Promise<void> } {
  const alive = new Map<number, { waiting: (() => void)[]; end: PromiseWithResolvers<void> }>();
  let next = 0;
  let moved = Promise.withResolvers<void>();

  return {
    join() {
      const id = next;
      next += 1;
      const own = { waiting: [] as (() => void)[], end: Promise.withResolvers<void>() };
      alive.set(id, own);
      return {
        step: () =>
          new Promise((resolve) => {
            own.waiting.push(resolve);
            moved.resolve();
          }),
        over(work) {
          const done = work.finally(() => {
            alive.delete(id);
            moved.resolve();
          });
          return Promise.race([done.then(() => {}), own.end.promise]);
        },
      };
    },
    async run() {
      for (let moves = 0; ; moves += 1) {
        // Until each has come to where it waits, or has ended.
        while ([...alive.values()].some(({ waiting }) => waiting.length === 0)) {
          moved = Promise.withResolvers();
          await moved.promise;
        }
        if (alive.size === 0) return;
        if (moves > 2_000) throw new Error("the creators keep each other from ever ending");
        const [id, own] = random.pick([...alive]);
        if (random.next() < 0.06) {
          alive.delete(id);
          own.end.resolve();
        } else own.waiting.splice(random.between(0, own.waiting.length - 1), 1)[0]?.();
      }
    },
  };
}

/** Each call waits for its turn; those that were begun together may be carried out apart. */
function scheduled(store: ShardStore, step: () => Promise<void>): ShardStore {
  const entries = Object.entries(store).map(([name, call]) => [
    name,
    async (...args: never[]) => {
      await step();
      return (call as (...given: never[]) => Promise<unknown>)(...args);
    },
  ]);
  return Object.fromEntries(entries) as ShardStore;
}
