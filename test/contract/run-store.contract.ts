import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { FeedEntry } from "../../src/core/event.ts";
import type { Message } from "../../src/core/message.ts";
import { makeRejectedRun } from "../../src/core/new-run.ts";
import type { OpenCall, Run } from "../../src/core/run.ts";
import type { RunStore } from "../../src/ports.ts";
import {
  at,
  change,
  committed,
  created,
  inputReceived,
  message,
  newRun,
  nextToken,
  openCall,
  runCreated,
  toolResult,
  trace,
  user,
} from "./run-fixtures.ts";

/** What a store under test comes with. `close` releases it. */
export type StoreUnderTest = { store: RunStore; close(): Promise<void> };

/** Registers the suite that every `RunStore` passes. */
export function runStoreContract(name: string, start: () => Promise<StoreUnderTest>): void {
  describe(`${name}: a run store`, () => {
    let store: RunStore;
    let close: () => Promise<void>;
    beforeEach(async () => {
      ({ store, close } = await start());
    });
    afterEach(() => close());

    creating(() => store);
    committing(() => store);
    transcripts(() => store);
    feeds(() => store);
    leases(() => store);
    others(() => store);
  });
}

type Store = () => RunStore;

function creating(store: Store): void {
  test("gives back what was created, and null for what was not", async () => {
    const run = await created(store(), {
      metadata: { customer: "c1", nested: { list: [1, "two", null] } },
      session: "s-1",
    });
    expect(await store().load("run-a")).toEqual(run);
    expect(await store().loadWithMessages("run-a")).toEqual({ run, messages: [user("hello")] });
    expect(await store().load("run-b")).toBeNull();
    expect(await store().loadWithMessages("run-b")).toBeNull();
    expect(await store().loadWithLastMessage("run-b")).toBeNull();
    expect(await store().readMessages("run-b", 0, 10)).toEqual([]);
    expect(await store().readResults("run-b")).toEqual({});
    expect(await store().readFeed("run-b", 0, 10)).toEqual([]);
  });

  test("creates an id once and shows who holds it", async () => {
    const run = await created(store());
    const other = newRun({ inputHash: "other" }, [user("another")]);
    expect(await store().create(other, [user("another")], [runCreated(other)])).toEqual({ created: false, run });
    expect(await store().loadWithMessages("run-a")).toEqual({ run, messages: [user("hello")] });
    expect(await store().readFeed("run-a", 0, 10)).toHaveLength(1);
  });

  test("takes a creation sent twice for one", async () => {
    const run = newRun();
    expect(await store().create(run, [user("hello")], [runCreated(run)])).toEqual({ created: true });
    expect(await store().create(run, [user("hello")], [runCreated(run)])).toEqual({ created: true });
    expect(await store().readMessages("run-a", 0, 10)).toEqual([user("hello")]);
  });

  test("lets one of many creators win", async () => {
    const runs = Array.from({ length: 8 }, (_, index) => newRun({ inputHash: `hash-${index}` }));
    const results = await Promise.all(runs.map((run) => store().create(run, [user("hello")], [runCreated(run)])));
    const winners = results.flatMap((result, index) => (result.created ? [index] : []));
    expect(winners).toHaveLength(1);
    const stored = await store().load("run-a");
    expect(stored).toEqual(runs[winners[0] ?? -1]);
    for (const result of results) expect(result.created || result.run).toEqual(result.created || stored);
  });

  test("a rejected record does not hold its id and leaves nothing behind", async () => {
    const rejected = makeRejectedRun({
      runId: "run-a",
      agent: "unknown",
      reason: "no input",
      trace,
      at,
      token: nextToken(),
    });
    const entry: FeedEntry = {
      seq: 1,
      at,
      turn: 0,
      type: "run_rejected",
      error: { code: "rejected", message: "no input" },
    };
    expect(await store().create(rejected, [], [entry])).toEqual({ created: true });
    expect(await store().loadWithMessages("run-a")).toEqual({ run: rejected, messages: [] });
    expect((await store().list({ status: "rejected" })).runs).toEqual([rejected]);
    await store().publishLive("run-a", [{ turn: 1, attempt: 1, execution: "e", text: "old" }]);

    const run = await created(store(), { createdAt: at + 5 });
    expect(await store().loadWithMessages("run-a")).toEqual({ run, messages: [user("hello")] });
    expect(await store().readFeed("run-a", 0, 10)).toEqual([runCreated(run)]);
    expect((await store().readLive("run-a", "0")).deltas).toEqual([]);
    expect((await store().list({ status: "rejected" })).runs).toEqual([]);
    expect((await store().list({ agent: "unknown" })).runs).toEqual([]);
    expect((await store().list({})).runs).toEqual([run]);
  });

  test("does not share objects with its callers", async () => {
    const messages = [user("hello")];
    const run = newRun({ metadata: { list: [1] } }, messages);
    await store().create(run, messages, [runCreated(run)]);
    const expected = structuredClone({ run, messages });
    (run.metadata.list as number[]).push(2);
    messages.push(user("not stored"));
    const loaded = await store().loadWithMessages("run-a");
    expect(loaded).toEqual(expected);
    loaded?.messages.push(user("not stored either"));
    if (loaded) loaded.run.metadata.list = "changed";
    expect(await store().loadWithMessages("run-a")).toEqual(expected);
  });
}

function committing(store: Store): void {
  test("commits head, messages, results and feed together", async () => {
    const run = await created(store());
    const calls = [openCall(1), openCall(2, { state: "settled" })];
    const next = change(
      run,
      {
        status: "running",
        turns: 1,
        calls,
        model: undefined,
        startedAt: at,
        usage: { inputTokens: 3, outputTokens: 2, cachedTokens: 1, costUsd: 0.25 },
      },
      { append: [message("more")], results: [toolResult("call-1-2", "early")], entries: [inputReceived(2)] },
    );
    await committed(store(), next);
    expect(await store().loadWithMessages("run-a")).toEqual({ run: next.run, messages: [user("hello"), user("more")] });
    expect(await store().readResults("run-a")).toEqual({ "call-1-2": toolResult("call-1-2", "early") });
    expect(await store().readFeed("run-a", 1, 10)).toEqual([inputReceived(2)]);
  });

  test("a conflict gives the head as it is and writes nothing", async () => {
    const run = await created(store());
    const first = await committed(store(), change(run, { turns: 1, calls: [openCall(1)] }));
    const late = change(
      run,
      { turns: 9 },
      { append: [message("late")], results: [toolResult("call-1-1", "late")], entries: [inputReceived(2)] },
    );
    expect(await store().commit(late)).toEqual({ committed: false, run: first });
    expect(await store().loadWithMessages("run-a")).toEqual({ run: first, messages: [user("hello")] });
    expect(await store().readResults("run-a")).toEqual({});
    expect(await store().readFeed("run-a", 0, 10)).toHaveLength(1);
  });

  test("compares the token where the revision is right, and the revision where the token is right", async () => {
    const run = await created(store());
    const stored = await committed(store(), change(run));
    const otherToken = { ...stored, token: "of-a-lost-primary" };
    expect(await store().commit(change(otherToken))).toEqual({ committed: false, run: stored });
    const otherRevision = { ...stored, revision: stored.revision + 1 };
    expect(await store().commit(change(otherRevision))).toEqual({ committed: false, run: stored });
    await committed(store(), change(stored));
  });

  test("a conflict with one's own token is success, and nothing is doubled", async () => {
    const run = await created(store());
    const next = change(run, {}, { append: [message("more")], entries: [inputReceived(2)] });
    await committed(store(), next);
    await committed(store(), next);
    expect(await store().loadWithMessages("run-a")).toEqual({ run: next.run, messages: [user("hello"), user("more")] });
    expect(await store().readFeed("run-a", 0, 10)).toHaveLength(2);
  });

  test("a commit to a run that is gone says so", async () => {
    expect(await store().commit(change(newRun({ runId: "gone" })))).toEqual({ committed: false, run: null });
    expect(await store().load("gone")).toBeNull();
  });

  test("one of many commits on the same head wins", async () => {
    const run = await created(store());
    const changes = Array.from({ length: 10 }, (_, index) =>
      change(run, { turns: index + 1 }, { append: [message(`m${index}`)] }),
    );
    const results = await Promise.all(changes.map((next) => store().commit(next)));
    const winner = results.findIndex((result) => result.committed);
    expect(results.filter((result) => result.committed)).toHaveLength(1);
    expect(await store().load("run-a")).toEqual(changes[winner]?.run);
    expect(await store().readMessages("run-a", 1, 99)).toEqual([user(`m${winner}`)]);
  });

  test("keeps the calls of a turn in order while they change one by one, and forgets those that are gone", async () => {
    let run = await created(store());
    run = await committed(
      store(),
      change(run, { calls: Array.from({ length: 12 }, (_, index) => openCall(index + 1)) }),
    );
    expect((await store().load("run-a"))?.calls).toEqual(run.calls);
    const started = openCall(7, { state: "started", startToken: "s", timeoutAt: at + 5, repeatable: false });
    run = await committed(
      store(),
      change(run, { calls: run.calls.map((call) => (call.position === 7 ? started : call)) }),
    );
    expect((await store().load("run-a"))?.calls).toEqual(run.calls);
    const hold = { reason: "unknown_tool" as const, detail: "lookup", count: 1 };
    const question = { argumentsHash: "h", description: "looks it up", reason: "policy rule 1: approval always" };
    const states = [
      openCall(1, { state: "approval", askedAt: at, expiresAt: at + 9, question }),
      openCall(2, { state: "lost", startToken: "s", timeoutAt: at + 5 }),
      openCall(3, { state: "asking", askedAt: at, crashes: 1, isolatedStarts: 2, queue: "browser" }),
      openCall(4, { notBefore: at + 1, hold, question, decision: { type: "approved", by: "ann", at } }),
      openCall(5, { state: "answer", from: "person", askedAt: at, question, answerSchema: { type: "string" } }),
      openCall(6, { state: "answer", from: "caller", askedAt: at, expiresAt: at + 9 }),
    ];
    run = await committed(store(), change(run, { calls: states, minReader: 3 }));
    expect(await store().load("run-a")).toEqual(run);
    run = await committed(store(), change(run, { calls: [] }));
    expect(await store().load("run-a")).toEqual(run);
  });

  test("moves early results into the transcript where the commit says", async () => {
    let run = await created(store());
    run = await committed(
      store(),
      change(run, {}, { results: [toolResult("call-1-3", "three"), toolResult("call-1-1", "one")] }),
    );
    const own = toolResult("call-1-2", "two");
    const next = change(
      run,
      {},
      {
        append: [
          { type: "result", callId: "call-1-1" },
          { type: "message", message: own },
          { type: "result", callId: "call-1-3" },
          message("and then"),
        ],
      },
    );
    await committed(store(), next);
    expect(await store().readMessages("run-a", 1, 9)).toEqual([
      toolResult("call-1-1", "one"),
      own,
      toolResult("call-1-3", "three"),
      user("and then"),
    ]);
    expect(await store().readResults("run-a")).toEqual({});
  });

  test("a result that is not there fails the commit whole", async () => {
    const run = await created(store());
    const next = change(
      run,
      { turns: 5 },
      { append: [message("more"), { type: "result", callId: "call-1-1" }], entries: [inputReceived(2)] },
    );
    await expect(store().commit(next)).rejects.toMatchObject({
      code: "invalid",
      message: expect.stringContaining("run-a"),
    });
    expect(await store().loadWithMessages("run-a")).toEqual({ run, messages: [user("hello")] });
    expect(await store().readFeed("run-a", 0, 10)).toHaveLength(1);
  });

  test("keeps what a newer version wrote beside what is known", async () => {
    const call = { ...openCall(1), lease: { until: 7 } } as unknown as OpenCall;
    const model = { attempt: 1, owedAt: 1, budget: [1] } as unknown as Run["model"];
    const unknown = { children: { a: 1 }, shard: 3 };
    let run = await created(store(), { schemaVersion: 2, minReader: 1, unknown, calls: [call], model });
    expect(await store().load("run-a")).toEqual(run);
    const loaded = await store().load("run-a");
    if (!loaded) throw new Error("the run is gone");
    run = await committed(store(), change(loaded, { turns: 1 }));
    expect(await store().load("run-a")).toMatchObject({
      schemaVersion: 2,
      unknown,
      calls: [{ lease: { until: 7 } }],
      model: { budget: [1] },
      turns: 1,
    });
  });

  test("keeps the tools of a run's caller, whatever they ask for, through every commit", async () => {
    const parameters = { type: "object", properties: { a: { enum: ["é", null, 1.5] } }, "x-own": [true] };
    const tools = [
      { name: "book", description: "Books.", parameters },
      { name: "none", description: "", parameters: { type: "object" } },
    ];
    let run = await created(store(), { tools });
    run = await committed(store(), change(run, { turns: 1 }));
    expect(await store().load("run-a")).toEqual(run);
    expect(run.tools).toEqual(tools);
    expect((await store().list({})).runs).toMatchObject([{ tools }]);
  });

  test("refuses a record that only a newer version may touch", async () => {
    const run = newRun({ schemaVersion: 9, minReader: 9 });
    await store().create(run, [user("hello")], [runCreated(run)]);
    const refused = { code: "unsupported", message: expect.stringMatching(/run-a .*newer version/) };
    await expect(store().load("run-a")).rejects.toMatchObject(refused);
    await expect(store().loadWithMessages("run-a")).rejects.toMatchObject(refused);
    await expect(store().loadWithLastMessage("run-a")).rejects.toMatchObject(refused);
    await expect(store().commit(change({ ...run, revision: 7 }))).rejects.toMatchObject(refused);
  });
}

function transcripts(store: Store): void {
  test("messages come back as they were, whatever is in them", async () => {
    const messages: Message[] = [
      { role: "system", content: "be kind" },
      {
        role: "user",
        content: [
          { type: "text", text: "héllo \u0000 \u2028 😀 \n\"'\\" },
          { type: "image_url", image_url: { url: "x" } },
        ],
        name: "ann",
      },
      {
        role: "assistant",
        content: null,
        toolCalls: [{ callId: "call-1-1", id: "p", name: "lookup", arguments: '{"a": 1}', extra: { index: 0 } }],
        extra: { reasoning_content: "because" },
      },
      toolResult("call-1-1", " starts and ends with blanks "),
      { role: "user", content: "" },
    ];
    const run = await created(store(), {}, messages);
    expect(await store().loadWithMessages("run-a")).toEqual({ run, messages });
    expect(await store().readMessages("run-a", 0, 99)).toEqual(messages);
    expect(await store().loadWithLastMessage("run-a")).toEqual({ run, last: messages.at(-1) });
  });

  test("reads half-open ranges", async () => {
    const messages = Array.from({ length: 5 }, (_, index) => user(`m${index}`));
    await created(store(), {}, messages);
    const read = (from: number, to: number): Promise<Message[]> => store().readMessages("run-a", from, to);
    expect(await read(1, 3)).toEqual(messages.slice(1, 3));
    expect(await read(4, 50)).toEqual(messages.slice(4));
    expect(await read(0, 0)).toEqual([]);
    expect(await read(3, 2)).toEqual([]);
    expect(await read(5, 9)).toEqual([]);
    expect(await read(-2, 1)).toEqual(messages.slice(0, 1));
  });

  test("reads long transcripts whole", async () => {
    const messages = Array.from({ length: 2_345 }, (_, index) => user(`m${index}`));
    const run = await created(store(), {}, messages);
    expect(await store().readMessages("run-a", 0, 5_000)).toEqual(messages);
    expect(await store().readMessages("run-a", 990, 2_010)).toEqual(messages.slice(990, 2_010));
    expect(await store().loadWithMessages("run-a")).toEqual({ run, messages });
  });

  test("loads again what grew meanwhile", async () => {
    let run = await created(store());
    const expected = [user("hello")];
    for (let index = 0; index < 5; index += 1) {
      expect(await store().loadWithMessages("run-a")).toEqual({ run, messages: expected });
      run = await committed(store(), change(run, {}, { append: [message(`a${index}`), message(`b${index}`)] }));
      expected.push(user(`a${index}`), user(`b${index}`));
      if (index % 2 === 0) run = await committed(store(), change(run));
    }
    expect(await store().loadWithMessages("run-a")).toEqual({ run, messages: expected });
    expect(await store().loadWithMessages("run-a")).toEqual({ run, messages: expected });
    expect(await store().loadWithLastMessage("run-a")).toEqual({ run, last: user("b4") });
  });
}

function feeds(store: Store): void {
  test("pages the feed by sequence number", async () => {
    let run = await created(store());
    for (let seq = 2; seq <= 12; seq += 2) {
      run = await committed(store(), change(run, {}, { entries: [inputReceived(seq), inputReceived(seq + 1)] }));
    }
    expect(await store().readFeed("run-a", 0, 3)).toEqual([runCreated(run), inputReceived(2), inputReceived(3)]);
    expect(await store().readFeed("run-a", 3, 4)).toEqual([4, 5, 6, 7].map(inputReceived));
    expect(await store().readFeed("run-a", 11, 50)).toEqual([12, 13].map(inputReceived));
    expect(await store().readFeed("run-a", 13, 50)).toEqual([]);
    expect(await store().readFeed("run-a", 0, 0)).toEqual([]);
  });

  test("live text comes back in order, from where the reader was", async () => {
    await created(store());
    const delta = (text: string): { turn: number; attempt: number; execution: string; text: string } => ({
      turn: 1,
      attempt: 1,
      execution: "e1",
      text,
    });
    expect(await store().readLive("run-a", "0")).toEqual({ deltas: [], next: "0" });
    await store().publishLive("run-a", [delta("a"), delta("b")]);
    await store().publishLive("run-a", []);
    const first = await store().readLive("run-a", "0");
    expect(first.deltas).toEqual([delta("a"), delta("b")]);
    expect(await store().readLive("run-a", first.next)).toEqual({ deltas: [], next: first.next });
    await store().publishLive("run-a", [delta("c")]);
    const second = await store().readLive("run-a", first.next);
    expect(second.deltas).toEqual([delta("c")]);
    expect((await store().readLive("run-a", "0")).deltas).toEqual(["a", "b", "c"].map(delta));
    await expect(store().readLive("run-a", "soon")).rejects.toMatchObject({ code: "invalid" });
  });
}

function leases(store: Store): void {
  test("a lease has one holder until its time is over", async () => {
    const free = await Promise.all([store().tryLease("sweep", 60_000), store().tryLease("sweep", 60_000)]);
    expect(free.filter(Boolean)).toHaveLength(1);
    expect(await store().tryLease("sweep", 60_000)).toBe(false);
    expect(await store().tryLease("other", 60_000)).toBe(true);
    expect(await store().tryLease("named", 60_000, "ann")).toBe(true);
    expect(await store().tryLease("named", 60_000, "bob")).toBe(false);
    expect(await store().tryLease("named", 60_000, "ann")).toBe(true);
    expect(await store().tryLease("named", 60_000)).toBe(false);
  });
}

function others(store: Store): void {
  test("gives back all that holds, shapes or checks a run's next step", async () => {
    const hold = { reason: "rate_limit" as const, detail: "its turn", count: 2, gate: "tool:t" };
    const asked = openCall(1, { state: "ready", hold } as Partial<OpenCall>);
    const run = await committed(
      store(),
      change(await created(store()), {
        model: { task: "summary", upTo: 3, attempt: 2, owedAt: 2, hold },
        calls: [asked],
        summary: { id: 4, text: "so far", upTo: 2 },
        windowBudget: 900,
        unchecked: true,
        structured: true,
        reasks: 1,
        verifications: 2,
        repeatsFrom: 1,
      }),
    );
    expect(await store().load("run-a")).toEqual(run);
  });

  test("keeps agent definitions under their hash", async () => {
    const definition = {
      name: "assistant",
      instructions: "help",
      model: "gpt",
      provider: "openai",
      tools: [{ name: "t", description: "d", parameters: { type: "object", properties: {}, required: [] } }],
      request: { temperature: 0.5 },
      limits: { maxTurns: 3 },
      version: "7",
    };
    expect(await store().getDefinition("h1")).toBeNull();
    await store().putDefinition("h1", definition);
    await store().putDefinition("h1", { ...definition, instructions: "changed" });
    expect(await store().getDefinition("h1")).toEqual(definition);
  });
}
