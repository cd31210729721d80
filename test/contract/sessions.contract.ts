import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { FeedEntry } from "../../src/core/event.ts";
import type { Run } from "../../src/core/run.ts";
import { sessionTranscript } from "../../src/core/session.ts";
import type { RunStore } from "../../src/ports.ts";
import { at, change, committed, created, message, runCreated, user } from "./run-fixtures.ts";
import type { StoreUnderTest } from "./run-store.contract.ts";
import { begin, enter, leave, place, session, sessionRun } from "./session-fixtures.ts";

/** Registers the part of the suite of every `RunStore` that is about sessions. */
export function sessionsContract(name: string, start: () => Promise<StoreUnderTest>): void {
  describe(`${name}: the sessions of a run store`, () => {
    let store: RunStore;
    let close: () => Promise<void>;
    beforeEach(async () => {
      ({ store, close } = await start());
    });
    afterEach(() => close());

    const line = async (): Promise<string[]> =>
      (await store.readSession(session, 100)).line.map(({ runId, round }) => `${runId} ${round}`);

    test("a run gives back all it was made with", async () => {
      const run = await begin(store, "a", { place: { ...place("delayed"), notBefore: at + 5 } });
      expect(await store.load("a")).toEqual(run);
      expect(await store.loadWithMessages("a")).toEqual({ run, messages: [] });
      expect(await store.loadWithLastMessage("a")).toEqual({ run, last: undefined });
      const next = await committed(store, change(run, { earlierParts: [[0, 2]], inputCount: 3, place: undefined }));
      expect(await store.load("a")).toEqual(next);
    });

    test("a run is in line from the commit that puts it there to the one that takes it out", async () => {
      expect(await store.readSession(session, 5)).toEqual({ line: [], messageCount: 0 });
      const a = await begin(store, "a");
      const b = await begin(store, "b");
      const late = await begin(store, "late", { place: { ...place("delayed"), notBefore: at + 5 } });
      await begin(store, "c");
      expect(await line()).toEqual(["a 1", "b 1", "c 1"]);
      expect((await store.readSession(session, 1)).line).toEqual([{ runId: "a", round: 1 }]);
      const queued = await committed(store, change(b, { place: place("queued") }));
      const joined = await committed(store, change(late, { place: place("joined", 2) }));
      expect(await line()).toEqual(["a 1", "b 1", "c 1", "late 2"]);
      await leave(store, await enter(store, a, 0));
      expect(await line()).toEqual(["b 1", "c 1", "late 2"]);
      const cancelled = await leave(store, queued);
      await leave(store, joined);
      expect(await line()).toEqual(["c 1"]);
      await committed(store, change(cancelled, { status: "queued", place: place("joined", 3) }));
      expect(await line()).toEqual(["c 1", "b 3"]);
    });

    test("nobody joins or leaves twice, nor by a commit that was refused", async () => {
      const a = sessionRun("a");
      for (let time = 0; time < 2; time += 1) await store.create(a, [], [runCreated(a)]);
      const other = sessionRun("a", { inputHash: "other" });
      expect(await store.create(other, [], [runCreated(other)])).toEqual({ created: false, run: a });
      expect(await line()).toEqual(["a 1"]);
      const gone = change(a, { status: "cancelled", place: place("leaving") });
      const late = change(a, { status: "failed", place: place("leaving") });
      for (let time = 0; time < 2; time += 1) await committed(store, gone);
      expect(await store.commit(late)).toEqual({ committed: false, run: gone.run });
      expect(await line()).toEqual([]);
      await committed(store, change(gone.run, { place: undefined }));
      expect(await line()).toEqual([]);
    });

    test("runs append to one transcript, and each knows its own part of it", async () => {
      const [a, b] = [await begin(store, "a"), await begin(store, "b")];
      const begun = await enter(store, a, 0);
      const answered = await committed(store, change(begun, {}, { append: [message("answer of a")] }));
      const done = await leave(store, answered);
      expect((await store.readSession(session, 1)).messageCount).toBe(2);
      const second = await enter(store, b, 2);
      const whole = [user("input of a"), user("answer of a"), user("input of b")];
      expect(await store.loadWithMessages("b")).toEqual({ run: second, messages: whole });
      expect(await store.loadWithMessages("a")).toEqual({ run: done, messages: whole.slice(0, 2) });
      expect(await store.loadWithLastMessage("a")).toEqual({ run: done, last: user("answer of a") });
      const third = await committed(store, change(second, {}, { append: [message("answer of b")] }));
      expect(await store.loadWithMessages("a")).toEqual({ run: done, messages: whole.slice(0, 2) });
      expect(await store.loadWithMessages("b")).toEqual({ run: third, messages: [...whole, user("answer of b")] });
      expect(await store.loadWithLastMessage("b")).toEqual({ run: third, last: user("answer of b") });
      expect(await store.readMessages(sessionTranscript(session), 1, 3)).toEqual(whole.slice(1));
      expect(await store.readMessages("a", 0, 9)).toEqual([]);
    });

    test("a commit that supposes another length of the transcript is refused, and nothing is written", async () => {
      const [a, b] = [await begin(store, "a"), await begin(store, "b")];
      await enter(store, a, 0);
      await expect(enter(store, b, 0)).rejects.toMatchObject({ code: "invalid" });
      expect(await store.load("b")).toEqual(b);
      expect((await store.readSession(session, 1)).messageCount).toBe(1);
    });

    test("a rejected record leaves the transcript of a session alone when its id is taken", async () => {
      await enter(store, await begin(store, "a"), 0);
      const rejected: Run = { ...sessionRun("b"), status: "rejected", place: undefined, baseMessage: undefined };
      const entry: FeedEntry = { seq: 1, at, turn: 0, type: "run_rejected", error: { code: "rejected", message: "x" } };
      await store.create({ ...rejected, session: undefined, pendingInput: [] }, [], [entry]);
      await begin(store, "b");
      expect(await line()).toEqual(["a 1", "b 1"]);
      expect(await store.readMessages(sessionTranscript(session), 0, 9)).toEqual([user("input of a")]);
    });

    test("a run keeps its place in line while it is there, unless it is another one", async () => {
      const active = await enter(store, await begin(store, "a"), 0);
      await begin(store, "b", { place: place("queued") });
      const entry = { runId: "a", round: 1 };
      const lost = { seen: null, messageCount: 1, messages: [user("closed")] };
      expect(await store.dropFromLine(session, entry, lost)).toBe(false);
      expect(await store.dropFromLine(session, { runId: "b", round: 1 }, lost)).toBe(false);
      expect(await store.dropFromLine(session, { runId: "nobody", round: 1 }, lost)).toBe(false);
      expect(await store.dropFromLine(session, entry, { ...lost, seen: { ...active, token: "other" } })).toBe(false);
      expect(await store.dropFromLine(session, entry, { ...lost, seen: active, messageCount: 7 })).toBe(false);
      expect(await line()).toEqual(["a 1", "b 1"]);
      expect(await store.dropFromLine(session, entry, { ...lost, seen: active })).toBe(true);
      expect(await line()).toEqual(["b 1"]);
      expect(await store.readMessages(sessionTranscript(session), 0, 9)).toEqual([user("input of a"), user("closed")]);
    });

    test("an ended run is owing until it has handed over", async () => {
      const done = await leave(store, await enter(store, await begin(store, "a"), 0));
      expect(await store.owing(at + 1, 10)).toEqual(["a"]);
      await committed(store, change(done, { place: undefined }));
      expect(await store.owing(at + 1, 10)).toEqual([]);
    });

    test("lists the runs of a session, together with the other filters", async () => {
      const runs = [
        await begin(store, "a"),
        await begin(store, "b", { agent: "other" }),
        await begin(store, "c", { status: "failed" }),
      ];
      await created(store, { runId: "apart", session: "chat-2" });
      await created(store, { runId: "none" });
      const listed = async (filter: Parameters<RunStore["list"]>[0]): Promise<string[]> =>
        (await store.list(filter)).runs.map(({ runId }) => runId).toSorted();
      expect(await listed({ session })).toEqual(runs.map(({ runId }) => runId));
      expect(await listed({ session: "chat-2" })).toEqual(["apart"]);
      expect(await listed({ session: "nobody" })).toEqual([]);
      expect(await listed({ session, agent: "other" })).toEqual(["b"]);
      expect(await listed({ session, status: "queued" })).toEqual(["a", "b"]);
      expect(await listed({ session, status: "queued", agent: "assistant" })).toEqual(["a"]);
    });

    test("decides once which run an input goes into", async () => {
      const own = { runId: "i1", inputHash: "h", taken: false };
      expect(await store.claimInput(session, "i1", "h")).toEqual(own);
      await begin(store, "a");
      expect(await store.claimInput(session, "i1", "other")).toEqual(own);
      const given = { runId: "a", inputHash: "h", taken: false };
      expect(await store.claimInput(session, "i2", "h")).toEqual(given);
      expect(await store.claimInput("chat-2", "i2", "h")).toEqual({ ...given, runId: "i2" });
      await store.confirmInput(session, "i2", given);
      expect(await store.claimInput(session, "i2", "h")).toEqual({ ...given, taken: true });
      expect(await store.claimInput(session, "i2", "h", "a")).toEqual({ ...given, taken: true });
    });

    test("an input that was refused, or whose id is a run's, gets a run of its own", async () => {
      await begin(store, "a");
      expect(await store.claimInput(session, "i1", "h")).toMatchObject({ runId: "a" });
      expect(await store.claimInput(session, "i1", "h", "other")).toMatchObject({ runId: "a" });
      expect(await store.claimInput(session, "i1", "h", "a")).toMatchObject({ runId: "i1", inputHash: "h" });
      expect(await store.claimInput(session, "i1", "h", "a")).toMatchObject({ runId: "i1" });
      await begin(store, "b");
      expect(await store.claimInput(session, "b", "h")).toMatchObject({ runId: "b" });
    });

    test("one of many claims decides", async () => {
      await begin(store, "a");
      const both = ["i1", "i2"].flatMap((id) => Array.from({ length: 5 }, () => id));
      const claims = await Promise.all(both.map((id) => store.claimInput(session, id, "h")));
      expect(claims).toEqual(both.map(() => ({ runId: "a", inputHash: "h", taken: false })));
    });
  });
}
