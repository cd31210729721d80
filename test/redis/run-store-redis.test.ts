// What only the store on Redis promises: what lies in Redis, what goes over the wire, and what damage does.
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { FeedEntry } from "../../src/core/event.ts";
import type { OpenCall, Run } from "../../src/core/run.ts";
import { toCommitArguments } from "../../src/redis/commit-plan.ts";
import { listMember } from "../../src/redis/keys.ts";
import { runScript } from "../../src/redis/read.ts";
import { createRedisRunStore } from "../../src/redis/run-store.ts";
import { commitScript } from "../../src/redis/scripts.ts";
import {
  change,
  committed,
  created,
  inputReceived,
  message,
  newRun,
  openCall,
  runCreated,
  toolResult,
  user,
} from "../contract/run-fixtures.ts";
import { startLossyRelay } from "../support/lossy-relay.ts";
import { commandsDuring } from "../support/monitor.ts";
import { startTestRedis } from "../support/redis.ts";
import { type StoreSetup, setUpStore } from "./setup.ts";

let setup: StoreSetup;
beforeEach(() => {
  setup = setUpStore();
});
afterEach(() => setup.close());

const delta = { turn: 1, attempt: 1, execution: "e", text: "x" };

describe("the commit script", () => {
  test("is sent again when Redis has forgotten it", async () => {
    const { store, cli } = setup;
    let run = await created(store);
    for (let round = 0; round < 5; round += 1) {
      await cli("SCRIPT", "FLUSH");
      const commits = [
        committed(store, change(run, {}, { append: [message(`m${round}`)] })),
        store.publishLive("run-a", [delta]),
      ];
      run = (await Promise.all(commits))[0] as Run;
    }
    expect((await store.loadWithMessages("run-a"))?.messages).toHaveLength(6);
    expect((await store.readLive("run-a", "0")).deltas).toHaveLength(5);
  });

  test("run twice with the same arguments commits once and calls it success (invariant 1)", async () => {
    const { store, keys, connection } = setup;
    const run = await created(store);
    const early = await committed(store, change(run, {}, { results: [toolResult("call-1-1", "one")] }));
    const next = change(
      early,
      { status: "running" },
      { append: [{ type: "result", callId: "call-1-1" }, message("more")], entries: [inputReceived(2)] },
    );
    const plan = toCommitArguments(keys, { ...next, fresh: false });
    expect(await runScript(connection.client, commitScript, plan)).toEqual([1]);
    expect(await runScript(connection.client, commitScript, plan)).toEqual([2]);
    expect(await store.loadWithMessages("run-a")).toEqual({
      run: next.run,
      messages: [user("hello"), toolResult("call-1-1", "one"), user("more")],
    });
    expect(await store.readFeed("run-a", 0, 10)).toHaveLength(2);
  });

  test("commits once when the connection breaks before the reply, every time", async () => {
    const relay = await startLossyRelay(setup.url);
    const lossy = setUpStore(relay.url);
    let run = await created(lossy.store);
    for (let round = 0; round < 20; round += 1) {
      const next = change(run, {}, { append: [message(`m${round}`)], entries: [inputReceived(run.eventSeq + 1)] });
      relay.loseReplyTo(next.run.token);
      run = await committed(lossy.store, next);
    }
    expect(relay.lost()).toBe(20);
    const texts = ["hello", ...Array.from({ length: 20 }, (_, round) => `m${round}`)];
    expect(await lossy.store.loadWithMessages("run-a")).toEqual({ run, messages: texts.map(user) });
    expect(await lossy.store.readFeed("run-a", 0, 100)).toHaveLength(21);
    const fresh = newRun({ runId: "run-b" });
    relay.loseReplyTo(fresh.token);
    expect(await lossy.store.create(fresh, [user("hello")], [runCreated(fresh)])).toEqual({ created: true });
    expect(relay.lost()).toBe(21);
    await lossy.close();
    await relay.close();
  });

  test("a commit whose reply was lost, overtaken by another, is a conflict with that one", async () => {
    const { store } = setup;
    const run = await created(store);
    const lost = change(run);
    const overtaking = await committed(store, change(await committed(store, lost)));
    expect(await store.commit(lost)).toEqual({ committed: false, run: overtaking });
  });

  test("writes only the calls that changed", () => {
    const calls = Array.from({ length: 100 }, (_, index) => openCall(index + 1));
    const run = newRun({ calls });
    const after = calls.slice(1).map((call): OpenCall => (call.position === 50 ? { ...call, attempt: 2 } : call));
    const plan = toCommitArguments(setup.keys, { ...change(run, { calls: after }), fresh: false });
    const fields = plan.args.filter((argument) => String(argument).startsWith("call:"));
    expect(fields).toEqual(["call:call-1-1", "call:call-1-50"]);
  });

  test("touches the listing sets and counts only when the status changes", () => {
    const run = newRun();
    const keysOf = (fields: Partial<Run>): number =>
      toCommitArguments(setup.keys, { ...change(run, fields), fresh: false }).keys.length;
    expect(keysOf({ turns: 1 })).toBe(4);
    expect(keysOf({ status: "running" })).toBe(7);
  });
});

describe("what lies in Redis", () => {
  test("everything is under the prefix, nothing under BullMQ's, and nothing durable expires", async () => {
    const { store, keys, cli } = setup;
    const run = await created(store);
    await committed(store, change(run, { calls: [openCall(1)] }, { results: [toolResult("call-1-2", "x")] }));
    await store.putDefinition("h", {
      name: "a",
      instructions: "",
      model: "m",
      provider: "p",
      tools: [],
      request: {},
      limits: {},
    });
    const all = (await cli("KEYS", `${keys.prefix}*`)) as string[];
    expect(all.length).toBeGreaterThanOrEqual(8);
    for (const key of all) {
      expect(key.startsWith(`${keys.prefix}:r:`)).toBe(true);
      expect(await cli("PTTL", key)).toBe(-1);
    }
    expect(keys.queuePrefix).toBe(`${keys.prefix}:q`);
  });

  test("live text expires a day after the last delta, ten minutes after the end, and not while a retry runs", async () => {
    const { store, keys, cli } = setup;
    const left = async (): Promise<number> => Number(await cli("PTTL", keys.run("run-a").live));
    let run = await created(store);
    await store.publishLive("run-a", [delta]);
    expect(await left()).toBeGreaterThan(23 * 3_600_000);
    run = await committed(store, change(run, { status: "failed", model: undefined }));
    expect(await left()).toBeLessThanOrEqual(600_000);
    expect(await left()).toBeGreaterThan(500_000);
    await store.publishLive("run-a", [delta]);
    expect(await left()).toBeLessThanOrEqual(600_000);
    await committed(store, change(run, { status: "running" }));
    expect(await left()).toBe(-1);
    await store.publishLive("run-a", [delta]);
    expect(await left()).toBeGreaterThan(23 * 3_600_000);
  });

  test("a run's bytes are linear in new content, and its head does not grow with its history", async () => {
    const { store, keys, cli } = setup;
    const text = "x".repeat(1_000);
    const bytes = async (key: string): Promise<number> => Number(await cli("MEMORY", "USAGE", key, "SAMPLES", "0"));
    const sizes = async (): Promise<{ head: number; all: number }> => {
      const own = keys.run("run-a");
      const [head = 0, ...rest] = await Promise.all([own.head, own.messages, own.feed].map(bytes));
      return { head, all: head + rest.reduce((sum, size) => sum + size, 0) };
    };
    let run = await created(store);
    const grow = async (turns: number): Promise<void> => {
      for (let turn = 0; turn < turns; turn += 1) {
        const seq = run.eventSeq + 1;
        run = await committed(
          store,
          change(run, { turns: run.turns + 1 }, { append: [message(text)], entries: [inputReceived(seq)] }),
        );
      }
    };
    await grow(100);
    const first = await sizes();
    await grow(300);
    const last = await sizes();
    expect(last.head).toBeLessThanOrEqual(first.head + 16);
    expect(last.all).toBeLessThan(400 * (1_000 + 300) + 8_000);
    expect(last.all / first.all).toBeLessThan(4.2);
  });

  test("a commit sends the same number of bytes at turn 1,000 as at turn 1", () => {
    const length = (run: Run): number => {
      const plan = toCommitArguments(setup.keys, { ...change(run, {}, { append: [message("hello")] }), fresh: false });
      return [...plan.keys, ...plan.args].join("").length;
    };
    const early = newRun({ turns: 1, revision: 2 });
    const late = newRun({ turns: 1_000, revision: 2_001, messageCount: 2_000, eventSeq: 3_000 });
    expect(length(late) - length(early)).toBeLessThan(30);
  });

  test("works in a cluster, where one script may touch one slot only", async () => {
    const redis = await startTestRedis({ args: ["--cluster-enabled", "yes"] });
    await redis.cli("CLUSTER", "ADDSLOTSRANGE", "0", "16383");
    await vi.waitFor(async () => expect(await redis.cli("CLUSTER", "INFO")).toContain("cluster_state:ok"), {
      timeout: 10_000,
    });
    const own = setUpStore(redis.url, redis.prefix);
    const run = await created(own.store);
    const next = await committed(
      own.store,
      change(run, { status: "running", calls: [openCall(1)] }, { append: [message("more")] }),
    );
    expect(await own.store.loadWithMessages("run-a")).toEqual({ run: next, messages: [user("hello"), user("more")] });
    expect((await own.store.list({ status: "running" })).runs).toEqual([next]);
    await own.connection.close();
    await redis.stop();
  });
});

/** Every command on this store's keys while `act` runs, those of scripts too; names in lower case. */
async function commandsOf(act: () => Promise<unknown>): Promise<string[][]> {
  const commands = await commandsDuring(setup.url, setup.keys.prefix, act);
  return commands.map(({ name, args }) => [name, ...args]);
}

describe("the cache of transcripts", () => {
  test("reads only the tail of a transcript it knows, in one round trip", async () => {
    const { store, keys } = setup;
    const run = await created(
      store,
      {},
      Array.from({ length: 50 }, (_, index) => user(`m${index}`)),
    );
    const first = await commandsOf(() => store.loadWithMessages("run-a"));
    expect(first).toContainEqual(["lrange", keys.run("run-a").messages, "0", "-1"]);
    await committed(store, change(run, {}, { append: [message("new")] }));
    const second = await commandsOf(() => store.loadWithMessages("run-a"));
    expect(second.filter(([name]) => name === "lrange")).toEqual([["lrange", keys.run("run-a").messages, "49", "-1"]]);
    expect(second.filter(([name]) => name === "hgetall")).toHaveLength(1);
  });

  test("reads all again when the record is another one than before", async () => {
    const { store, keys, cli } = setup;
    await created(store, {}, [user("a"), user("b"), user("c")]);
    await store.loadWithMessages("run-a");
    const own = keys.run("run-a");
    await cli("DEL", own.head, own.messages, own.feed);
    const other = await created(store, {}, [user("x"), user("y"), user("z"), user("w")]);
    expect(await store.loadWithMessages("run-a")).toEqual({ run: other, messages: ["x", "y", "z", "w"].map(user) });
    await cli("DEL", own.head, own.messages, own.feed);
    expect(await store.loadWithMessages("run-a")).toBeNull();
    const short = await created(store, {}, [user("s")]);
    expect(await store.loadWithMessages("run-a")).toEqual({ run: short, messages: [user("s")] });
  });

  test("follows a failover that lost the last commits", async () => {
    const { store, keys, connection } = setup;
    const { client } = connection;
    const own = keys.run("run-a");
    const before = await created(store);
    const copies = await Promise.all([own.head, own.messages].map((key) => client.dumpBuffer(key)));
    await committed(store, change(before, {}, { append: [message("lost"), message("lost too")] }));
    expect((await store.loadWithMessages("run-a"))?.messages).toHaveLength(3);
    await client.restore(own.head, 0, copies[0] as Buffer, "REPLACE");
    await client.restore(own.messages, 0, copies[1] as Buffer, "REPLACE");
    expect(await store.loadWithMessages("run-a")).toEqual({ run: before, messages: [user("hello")] });
    const again = await committed(store, change(before, {}, { append: [message("again"), message("and more")] }));
    expect(await store.loadWithMessages("run-a")).toEqual({
      run: again,
      messages: ["hello", "again", "and more"].map(user),
    });
  });

  test("can be turned off, and a small one still loads what does not fit", async () => {
    const { connection, keys } = setup;
    for (const cacheBytes of [0, 500]) {
      const store = createRedisRunStore({ connection, keys, cacheBytes });
      const runId = `run-${cacheBytes}`;
      const messages = Array.from({ length: 20 }, (_, index) => user(`m${index}`));
      const run = await created(store, { runId }, messages);
      const commands = await commandsOf(async () => {
        expect(await store.loadWithMessages(runId)).toEqual({ run, messages });
        expect(await store.loadWithMessages(runId)).toEqual({ run, messages });
      });
      expect(commands.filter(([name, , from]) => name === "lrange" && from === "0")).toHaveLength(2);
    }
  });
});

describe("a record that is damaged", () => {
  const damaged = { name: "DroverError", code: "invalid" };

  test("gives a typed error that names it and holds none of its content", async () => {
    const { store, keys, cli } = setup;
    const spoil: [string, string][] = [
      ["head", "canary {"],
      ["head", JSON.stringify({ agent: "canary" })],
      ["rev", "canary"],
      ["status", "canary"],
      ["call:call-1-1", '{"state":"canary"}'],
    ];
    for (const [index, [field, value]] of spoil.entries()) {
      const runId = `run-${index}`;
      const run = await created(store, { runId });
      await cli("HSET", keys.run(runId).head, field, value);
      for (const read of [store.load(runId), store.loadWithMessages(runId), store.loadWithLastMessage(runId)]) {
        const error = await read.catch((reason: unknown) => reason);
        expect(error).toMatchObject({ ...damaged, message: expect.stringContaining(runId) });
        expect(String(error)).not.toContain("canary");
      }
      await expect(store.commit(change({ ...run, revision: 7 }))).rejects.toMatchObject(damaged);
    }
    expect((await store.list({})).runs).toEqual([]);
    expect(setup.warnings.join()).toContain("left out of a listing");
    expect(setup.warnings.join()).not.toContain("canary");
    const whole = await created(store, { runId: "whole" });
    expect((await store.list({})).runs).toEqual([whole]);
  });

  test("a key of another type is a clear error, and the commit leaves everything as it was", async () => {
    const { store, keys, cli } = setup;
    for (const part of ["messages", "results", "feed"] as const) {
      const runId = `run-${part}`;
      const run = await created(store, { runId });
      const early = await committed(store, change(run, {}, { results: [toolResult("call-1-1", "x")] }));
      await cli("DEL", keys.run(runId)[part]);
      await cli("SET", keys.run(runId)[part], "a string");
      const next = change(
        early,
        { turns: 5 },
        { append: [{ type: "result", callId: "call-1-1" }], entries: [inputReceived(2)] },
      );
      await expect(store.commit(next)).rejects.toMatchObject({
        code: "invalid",
        message: expect.stringContaining("WRONGTYPE"),
      });
      expect(await store.load(runId)).toEqual(early);
    }
    await cli("SET", keys.run("run-head").head, "a string");
    await expect(store.load("run-head")).rejects.toMatchObject({ code: "invalid" });
    await expect(store.loadWithMessages("run-messages")).rejects.toMatchObject({ code: "invalid" });
    await expect(store.readFeed("run-feed", 0, 1)).rejects.toMatchObject({ code: "invalid" });
  });

  test("a transcript that lost an entry is told, and not written to", async () => {
    const { store, keys, cli } = setup;
    const run = await created(store, {}, [user("a"), user("b")]);
    await cli("RPOP", keys.run("run-a").messages);
    await expect(store.loadWithMessages("run-a")).rejects.toMatchObject(damaged);
    await expect(store.commit(change(run, {}, { append: [message("c")] }))).rejects.toMatchObject(damaged);
    expect(await store.load("run-a")).toEqual(run);
    await cli("LSET", keys.run("run-a").messages, "0", "no-token");
    await expect(store.readMessages("run-a", 0, 1)).rejects.toMatchObject(damaged);
  });

  test("a feed that is ahead of its head is told, and the commit leaves everything as it was", async () => {
    const { store, keys, cli } = setup;
    const run = await created(store);
    await cli("RPUSH", keys.run("run-a").feed, "{}");
    const next = change(run, { turns: 5 }, { append: [message("c")], entries: [inputReceived(2)] });
    await expect(store.commit(next)).rejects.toMatchObject(damaged);
    expect(await store.loadWithMessages("run-a")).toEqual({ run, messages: [user("hello")] });
  });

  test("a feed that an older version began, a row per commit, is gone on with and read", async () => {
    const { store, keys, cli } = setup;
    const run = await created(store);
    const { feed } = keys.run("run-a");
    const row = (...entries: FeedEntry[]): string => JSON.stringify(entries.map(({ seq: _seq, ...rest }) => rest));
    await cli("DEL", feed);
    await cli("XADD", feed, "1-0", "e", row(runCreated(run)));
    await cli("XADD", feed, "3-0", "e", row(inputReceived(2), inputReceived(3)));
    const next = change({ ...run, eventSeq: 3 }, {}, { entries: [inputReceived(4), inputReceived(5)] });
    await committed(store, next);
    const all = [runCreated(run), ...[2, 3, 4, 5].map(inputReceived)];
    expect(await store.readFeed("run-a", 0, 10)).toEqual(all);
    expect(await store.readFeed("run-a", 2, 2)).toEqual([inputReceived(3), inputReceived(4)]);
    await cli("XADD", feed, "6-0", "e", "[]");
    const ahead = change(next.run, {}, { entries: [inputReceived(6)] });
    await expect(store.commit(ahead)).rejects.toMatchObject(damaged);
  });

  test("what is left of a record that lost its head does not hold its id", async () => {
    const { store, keys, cli } = setup;
    await created(store, {}, [user("old"), user("older")]);
    await cli("DEL", keys.run("run-a").head);
    const run = await created(store);
    expect(await store.loadWithMessages("run-a")).toEqual({ run, messages: [user("hello")] });
    expect(await store.readFeed("run-a", 0, 10)).toEqual([runCreated(run)]);
  });
});

describe("big installations", () => {
  /** Places in indexes, of runs that are not there. */
  async function crowd(names: string[], count: number): Promise<void> {
    const { client } = setup.connection;
    for (let from = 0; from < count; from += 1_000) {
      const places = Array.from({ length: 1_000 }, (_, index) =>
        listMember({ runId: `no-${from + index}`, createdAt: 2_000_000 }),
      );
      await Promise.all(names.map((name) => client.zadd(name, ...places.flatMap((place) => [0, place]))));
    }
  }

  test("a listing with a rare combination looks at a bounded number of runs per call", async () => {
    const { store, keys } = setup;
    await created(store, { agent: "rare", status: "waiting" });
    await crowd([keys.listByAgent("rare"), keys.listByStatus("waiting")], 6_000);
    const filter = { agent: "rare", status: "waiting" } as const;
    const first = await store.list(filter);
    expect(first).toEqual({ runs: [], cursor: expect.any(String) });
    const second = await store.list({ ...filter, cursor: first.cursor });
    expect(second.runs.map((run) => run.runId)).toEqual(["run-a"]);
    expect(second.cursor).toBeUndefined();
  });

  test("a search looks through a bounded number of ids per call, and finds a whole id at once", async () => {
    const { store, keys } = setup;
    await created(store, { runId: "the-needle" });
    await crowd([keys.listByStatus("completed")], 60_000);
    expect((await store.list({ search: "the-needle", limit: 1 })).runs).toHaveLength(1);
    const first = await store.list({ search: "needle" });
    expect(first).toEqual({ runs: [], cursor: expect.any(String) });
    const second = await store.list({ search: "needle", cursor: first.cursor });
    expect(second.runs.map((run) => run.runId)).toEqual(["the-needle"]);
    expect(second.cursor).toBeUndefined();
  });

  test("a listing within a time does not look at what is outside of it", async () => {
    const { store, keys } = setup;
    await created(store);
    await crowd([keys.listByStatus("completed")], 6_000);
    const commands = await commandsOf(async () => {
      const page = await store.list({ createdBefore: 1_500_000 });
      expect(page.runs.map((run) => run.runId)).toEqual(["run-a"]);
    });
    expect(commands.filter(([name]) => name === "hgetall")).toHaveLength(1);
  });

  test("two stores under different prefixes share nothing", async () => {
    const other = setUpStore();
    await created(setup.store);
    expect(await other.store.load("run-a")).toBeNull();
    expect((await other.store.list({})).runs).toEqual([]);
    await other.close();
  });
});
