// What the store on Redis does with the list that the runs of a session share: what is read of it, by whom, and what
// a failover does to it.
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Message } from "../../src/core/message.ts";
import type { Run } from "../../src/core/run.ts";
import { createRedisRunStore } from "../../src/redis/run-store.ts";
import { change, committed, message, user } from "../contract/run-fixtures.ts";
import { begin, enter, leave, session } from "../contract/session-fixtures.ts";
import { commandsDuring } from "../support/monitor.ts";
import { startTestRedis } from "../support/redis.ts";
import { type StoreSetup, setUpStore } from "./setup.ts";

let setup: StoreSetup;
beforeEach(() => {
  setup = setUpStore();
});
afterEach(() => setup.close());

/** Every LRANGE on this store's keys while `act` runs. */
async function rangesOf(act: () => Promise<unknown>): Promise<string[]> {
  const commands = await commandsDuring(setup.url, setup.keys.prefix, act);
  return commands.filter(({ name }) => name === "lrange").map(({ args }) => args.join(" "));
}

describe("the transcript of a session", () => {
  test("is read from where this process knows it, whichever run it read before", async () => {
    const { store, keys } = setup;
    const { messages } = keys.session(session);
    const [a, b] = [await begin(store, "a"), await begin(store, "b")];
    const more = Array.from({ length: 50 }, (_, index) => message(`m${index}`));
    const long = await committed(store, change(await enter(store, a, 0), {}, { append: more }));
    const ended = await leave(store, long);
    expect(await rangesOf(() => store.loadWithMessages("a"))).toContain(`${messages} 0 50`);
    const next = await enter(store, b, 51);
    expect(await rangesOf(() => store.loadWithMessages("b"))).toContain(`${messages} 50 51`);
    expect((await store.loadWithMessages("b"))?.messages).toHaveLength(52);
    // The run that ended knows less than what is cached by now.
    expect(await rangesOf(() => store.loadWithMessages("a"))).toContain(`${messages} 51 51`);
    expect((await store.loadWithMessages("a"))?.messages).toHaveLength(51);
    expect(await store.load("a")).toEqual(ended);
    expect(await store.load("b")).toEqual(next);
  });

  test("is the same to processes that append in turns and read at odd times", async () => {
    const stores = Array.from({ length: 3 }, () =>
      createRedisRunStore({ connection: setup.connection, keys: setup.keys }),
    );
    const expected: Message[] = [];
    const known = new Map<string, number>();
    for (let turn = 0; turn < 12; turn += 1) {
      const [first, second, third] = [0, 1, 2].map((offset) => stores[(turn + offset) % 3]);
      if (!first || !second || !third) throw new Error("no store");
      let run: Run = await begin(first, `r${turn}`);
      run = await enter(second, run, expected.length);
      expected.push(user(`input of r${turn}`));
      if (turn % 2 === 0) expect((await third.loadWithMessages(run.runId))?.messages).toEqual(expected);
      const texts = Array.from({ length: turn % 4 }, (_, index) => `r${turn} says ${index}`);
      run = await committed(third, change(run, {}, { append: texts.map(message) }));
      expected.push(...texts.map(user));
      await leave(first, run);
      known.set(run.runId, expected.length);
      for (const [runId, length] of known) {
        const store = stores[(turn + length) % 3];
        expect((await store?.loadWithMessages(runId))?.messages).toEqual(expected.slice(0, length));
      }
    }
  });

  test("that lost its end in a failover is not remembered as it was", async () => {
    const { store, keys, connection } = setup;
    const { client } = connection;
    const lost = [keys.run("a").head, keys.session(session).messages];
    const before = await enter(store, await begin(store, "a"), 0);
    const copies = await Promise.all(lost.map((key) => client.dumpBuffer(key)));
    await committed(store, change(before, {}, { append: [message("lost"), message("lost too")] }));
    expect((await store.loadWithMessages("a"))?.messages).toHaveLength(3);
    for (const [index, key] of lost.entries()) await client.restore(key, 0, copies[index] as Buffer, "REPLACE");
    const again = await committed(store, change(before, {}, { append: [message("again"), message("and more")] }));
    const messages = ["input of a", "again", "and more"].map(user);
    expect(await store.loadWithMessages("a")).toEqual({ run: again, messages });
  });

  test("that is shorter than what a run knows is told", async () => {
    const { store, keys, cli } = setup;
    await enter(store, await begin(store, "a"), 0);
    await cli("DEL", keys.session(session).messages);
    const damaged = { code: "invalid", message: expect.stringMatching(/run a is damaged .*0 entries, not 1/) };
    await expect(store.loadWithMessages("a")).rejects.toMatchObject(damaged);
  });

  test("an input whose record cannot be read is told", async () => {
    const { store, keys, cli } = setup;
    await cli("HSET", keys.session(session).inputs, "i1", "open");
    await expect(store.claimInput(session, "i1", "h")).rejects.toMatchObject({ code: "invalid", message: /chat-1/ });
  });
});

test("a session is in one slot of a cluster", async () => {
  const redis = await startTestRedis({ args: ["--cluster-enabled", "yes"] });
  await redis.cli("CLUSTER", "ADDSLOTSRANGE", "0", "16383");
  await vi.waitFor(async () => expect(await redis.cli("CLUSTER", "INFO")).toContain("cluster_state:ok"), {
    timeout: 10_000,
  });
  const { store, connection } = setUpStore(redis.url, redis.prefix);
  const run = await enter(store, await begin(store, "a"), 0);
  expect(await store.claimInput(session, "i1", "h")).toEqual({ runId: "a", inputHash: "h", taken: false });
  await leave(store, run);
  expect(await store.readSession(session, 5)).toEqual({ line: [], messageCount: 1 });
  await connection.close();
  await redis.stop();
});
