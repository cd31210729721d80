// Catches: a record that is lost or damaged and stays in the way for ever: owed, listed, counted, first in its session.
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { Run } from "../../src/core/run.ts";
import type { LineEntry } from "../../src/core/session.ts";
import { sweep } from "../../src/engine/sweep.ts";
import { connect } from "../../src/redis/connection.ts";
import { createRedisRunStore } from "../../src/redis/run-store.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { createMemoryStepQueue } from "../../src/testing/memory-step-queue.ts";
import { at, change, committed, created, inputReceived, message, runCreated, user } from "../contract/run-fixtures.ts";
import { begin, enter, place } from "../contract/session-fixtures.ts";
import { atWork, everything, interrupted, type StoreSetup, setUpStore } from "./setup.ts";

let setup: StoreSetup;
beforeEach(() => {
  setup = setUpStore();
});
afterEach(() => setup.close());

const model = { attempt: 1, owedAt: 1 };

test("a commit to a session's transcript between the looks at it is not taken for damage, and damage is", async () => {
  const { store, cli, keys, connection } = setup;
  const run = await enter(store, await begin(store, "first"), 0);
  const next = change(run, {}, { append: [message("on")], entries: [inputReceived(2)] });
  const racer = createRedisRunStore({ keys, connection: interrupted(connection, 2, () => committed(store, next)) });
  expect(await racer.whyDamaged("first")).toBeUndefined();
  await cli("RPUSH", keys.session(next.run.session ?? "").messages, "a message of somebody else's");
  expect(await store.whyDamaged("first")).toMatch(/transcript has 3 entries, not 2/);
});

test("a run whose record is lost is swept once, and no other run is left out of that sweep", async () => {
  const { store, cli, keys } = setup;
  const runIds = Array.from({ length: 120 }, (_, index) => `run-${String(index).padStart(3, "0")}`);
  for (const [index, runId] of runIds.entries()) await created(store, { runId, updatedAt: at + index, model });
  for (const runId of runIds.slice(0, 50)) await cli("DEL", keys.run(runId).head);
  const loaded: string[] = [];
  const load: typeof store.load = async (runId) => {
    loaded.push(runId);
    return store.load(runId);
  };
  const clock = manualClock(at + 60_000);
  const queue = createMemoryStepQueue({ clock });
  const deps = { store: { ...store, load }, queue, clock, logger: createSilentLogger() };
  expect(await sweep(deps)).toBe(70);
  expect(loaded.toSorted()).toEqual(runIds);
  expect(await store.owing(at + 60_000, 1_000)).toEqual(runIds.slice(50));
  loaded.length = 0;
  await sweep(deps);
  expect(loaded.toSorted()).toEqual(runIds.slice(50));
});

const runAtWork = (fields: Partial<Run> = {}): Promise<Run> =>
  atWork(setup.store, { session: "s1", agent: "an agent", updatedAt: at, ...fields });

/** The session is noted as one without runs. */
async function everythingButIdle(): Promise<Record<string, unknown>> {
  const { [setup.keys.idleSessions]: _idle, ...rest } = await everything(setup);
  return rest;
}

type Key = "head" | "messages" | "feed" | "results";
type Spoil = (cli: StoreSetup["cli"], keys: Record<Key, string>) => Promise<unknown>;
const retype =
  (key: Key): Spoil =>
  async (cli, keys) => {
    await cli("DEL", keys[key]);
    await cli("SET", keys[key], "a string");
  };
const spoils: [what: string, why: RegExp, spoil: Spoil][] = [
  ["rev that is no number", /rev does not fit/, (cli, { head }) => cli("HSET", head, "rev", "NaN")],
  ["no rev", /rev does not fit/, (cli, { head }) => cli("HDEL", head, "rev")],
  ["no tok", /tok does not fit/, (cli, { head }) => cli("HDEL", head, "tok")],
  ["a status there is not", /status does not fit/, (cli, { head }) => cli("HSET", head, "status", "odd")],
  ["no moving part", /^head is gone/, (cli, { head }) => cli("HDEL", head, "head")],
  [
    "a call that cannot be read",
    /^call:call-1-1 is not JSON/,
    (cli, { head }) => cli("HSET", head, "call:call-1-1", "{"),
  ],
  ["no transcript", /transcript has 0 entries, not 1/, (cli, { messages }) => cli("DEL", messages)],
  ["a transcript of another type", /transcript is a string/, retype("messages")],
  ["no feed", /feed has 0 entries, not 2/, (cli, { feed }) => cli("DEL", feed)],
  ["a feed that is too long", /feed has 3 entries, not 2/, (cli, { feed }) => cli("RPUSH", feed, "{}")],
  ["a feed of another type", /feed is a string/, retype("feed")],
  ["an early result that is gone", /result of call-1-2 is gone/, (cli, { results }) => cli("DEL", results)],
  ["early results of another type", /results are a string/, retype("results")],
];
/** Of these it is not known any more whose run it was. */
const anonymous: [what: string, why: RegExp, spoil: Spoil][] = [
  ["no fixed part", /^fixed is gone/, (cli, { head }) => cli("HDEL", head, "fixed")],
  ["no head", /head is gone/, (cli, { head }) => cli("DEL", head)],
  ["a head of another type", /head is a string/, retype("head")],
  [
    "no fixed part and no feed",
    /^fixed is gone/,
    async (cli, { head, feed }) => [await cli("HDEL", head, "fixed"), await cli("DEL", feed)],
  ],
];

describe("a run whose record is damaged is removed with all that is its own", () => {
  test.each(spoils)("%s", async (_, why, spoil) => {
    const { store, cli, keys } = setup;
    await runAtWork({ runId: "other", session: "s2" });
    const before = await everythingButIdle();
    await runAtWork();
    await spoil(cli, keys.run("run-a"));
    expect(await store.removeDamaged("run-a")).toEqual({ why: expect.stringMatching(why), session: "s1" });
    expect(await everythingButIdle()).toEqual(before);
    expect(await cli("ZRANGE", keys.idleSessions, "0", "-1")).toEqual(["s1"]);
    expect(await store.removeDamaged("run-a")).toBeNull();
  });

  test.each(anonymous)("%s", async (_, why, spoil) => {
    const { store, cli, keys } = setup;
    const own = { session: undefined, tenant: undefined };
    await runAtWork({ ...own, runId: "a", agent: "another agent" });
    await runAtWork({ ...own, runId: "other-run-a" });
    const before = await everything(setup);
    await runAtWork(own);
    await spoil(cli, keys.run("run-a"));
    expect(await store.removeDamaged("run-a")).toEqual({ why: expect.stringMatching(why), session: undefined });
    expect(await everything(setup)).toEqual(before);
  });

  test.each(anonymous)("%s, of a tenant and in a session", async (_, why, spoil) => {
    const { store, cli, keys } = setup;
    await runAtWork({ runId: "other", session: "s2" });
    await runAtWork({ runId: "another", session: undefined, tenant: "t2" });
    await cli("SET", keys.listByTenant("odd"), "a string");
    const before = await everythingButIdle();
    await runAtWork();
    await spoil(cli, keys.run("run-a"));
    expect(await store.removeDamaged("run-a")).toEqual({ why: expect.stringMatching(why), session: "s1" });
    expect(await everythingButIdle()).toEqual(before);
    expect(await cli("ZRANGE", keys.idleSessions, "0", "-1")).toEqual(["s1"]);
  });

  test("also where the keys may not be walked, but for what only a tenant or a session tells of it", async () => {
    const { store, cli, keys, url } = setup;
    await runAtWork();
    await cli("HDEL", keys.run("run-a").head, "fixed");
    await cli("ACL", "SETUSER", "walkless", "on", ">canary", "~*", "&*", "+@all", "-scan");
    onTestFinished(async () => void (await cli("ACL", "DELUSER", "walkless")));
    const connection = connect(url.replace("://", "://walkless:canary@"), { role: "worker" });
    onTestFinished(() => connection.close());
    const found = await createRedisRunStore({ connection, keys }).removeDamaged("run-a");
    expect(found).toEqual({ why: expect.stringMatching(/fixed is gone/), session: undefined });
    expect(await store.count()).toMatchObject({ running: 0 });
  });

  test("that has ended, with what is noted of its end", async () => {
    const { store, cli, keys } = setup;
    await created(store, { runId: "other" });
    const before = await everything(setup);
    const run = await created(store, { minReader: 4 });
    await committed(store, change(run, { status: "completed", model: undefined, endedAt: at }));
    await cli("HSET", keys.run("run-a").head, "rev", "NaN");
    expect(await store.removeDamaged("run-a")).toEqual({ why: expect.stringMatching(/rev/), session: null });
    expect(await everything(setup)).toEqual(before);
  });

  test("that goes first in its session, or waits in it", async () => {
    const { store, cli, keys } = setup;
    const first = await enter(store, await begin(store, "first"), 0);
    await begin(store, "second", { place: place("queued") });
    await begin(store, "third", { place: place("queued") });
    await cli("RPUSH", keys.session("chat-1").messages, "t x");
    expect(await store.removeDamaged("first")).toMatchObject({ why: expect.stringMatching(/2 entries, not 1/) });
    await cli("HDEL", keys.run("third").head, "head");
    expect(await store.removeDamaged("third")).toMatchObject({ session: "chat-1" });
    expect(await cli("EXISTS", keys.idleSessions)).toBe(0);
    // Who takes them out of the line also closes what the first one left open.
    const [one, two, three] = (await store.readSession("chat-1", 10)).line;
    const closing = { seen: null, messageCount: 1, messages: [user("closed")] };
    expect(await store.dropFromLine("chat-1", one as LineEntry, closing)).toBe(false);
    expect(await store.dropFromLine("chat-1", two as LineEntry, closing)).toBe(false);
    expect(await store.dropFromLine("chat-1", three as LineEntry, closing)).toBe(true);
    expect(await store.dropFromLine("chat-1", one as LineEntry, { ...closing, messageCount: 2 })).toBe(true);
    expect(await store.readSession("chat-1", 10)).toEqual({ line: [{ runId: "second", round: 1 }], messageCount: 3 });
    expect(await store.readMessages("session:chat-1", 2, 3)).toEqual(closing.messages);
    expect(await store.commit(change(first))).toEqual({ committed: false, run: null });
  });
});

describe("a run that is whole is not removed as damaged", () => {
  test("at work, ended, in a session, of an older version", async () => {
    const { store, cli, keys } = setup;
    await runAtWork();
    const active = await enter(store, await begin(store, "active"), 0);
    await begin(store, "waits", { place: place("queued") });
    // Of one that is not active the session's transcript may have gone on, or lost its end.
    await committed(store, change(active, { place: place("queued", 2) }));
    await cli("RPUSH", keys.session("chat-1").messages, "t x");
    const old = await created(store, { runId: "old", minReader: 3 });
    await cli("DEL", keys.run("old").feed);
    const row = JSON.stringify([{ ...runCreated(old), seq: undefined }]);
    await cli("XADD", keys.run("old").feed, "1-0", "e", row);
    for (const runId of ["run-a", "active", "waits", "old", "nobody"]) {
      const before = await everything(setup);
      expect(await store.removeDamaged(runId)).toBeNull();
      expect(await everything(setup)).toEqual(before);
    }
    await cli("XADD", keys.run("old").feed, "2-0", "e", row);
    expect(await store.removeDamaged("old")).toMatchObject({ why: expect.stringMatching(/come to 2, its head to 1/) });
  });

  test("that a newer version keeps, whatever this one makes of it", async () => {
    const { store, cli, keys } = setup;
    await created(store);
    await cli("HSET", keys.run("run-a").head, "min", "1000", "status", "of a newer kind");
    await expect(store.removeDamaged("run-a")).rejects.toMatchObject({ code: "unsupported" });
    await expect(store.load("run-a")).rejects.toMatchObject({ code: "unsupported" });
    expect(await cli("EXISTS", keys.run("run-a").head)).toBe(1);
  });

  test("that another process mends, changes or makes anew between the look and the removal", async () => {
    const { store, cli, keys, connection } = setup;
    const { head, feed } = keys.run("run-a");
    const run = await created(store);
    const racing = async (spoil: () => Promise<unknown>, meanwhile: () => Promise<unknown>): Promise<unknown> => {
      await spoil();
      const racer = createRedisRunStore({ keys, connection: interrupted(connection, 2, meanwhile) });
      return racer.removeDamaged("run-a");
    };
    const mend = async (): Promise<unknown> => [await cli("RPOP", feed), await cli("HSET", head, "tok", run.token)];
    const spoilFeed = async (): Promise<unknown> => [
      await cli("RPUSH", feed, "{}"),
      await cli("HSET", head, "tok", "spoiled"),
    ];
    expect(await racing(spoilFeed, mend)).toBeNull();
    expect(await store.load("run-a")).toEqual(run);
    expect(
      await racing(
        () => cli("DEL", head),
        () => created(store, {}, [user("anew")]),
      ),
    ).toBeNull();
    expect((await store.loadWithMessages("run-a"))?.messages).toEqual([user("anew")]);
    const other = (await store.load("run-a")) as Run;
    await committed(store, change(other, {}, { append: [message("on")], entries: [inputReceived(2)] }));
    expect(
      await racing(
        () => retype("head")(cli, keys.run("run-a")),
        () => cli("DEL", head),
      ),
    ).toMatchObject({
      why: "its head is gone",
    });
  });
});
