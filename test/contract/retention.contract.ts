import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { makeRejectedRun } from "../../src/core/new-run.ts";
import type { Run } from "../../src/core/run.ts";
import type { RunStore } from "../../src/ports.ts";
import { at, change, committed, created, message, newRun, nextToken, runCreated, trace, user } from "./run-fixtures.ts";
import type { StoreUnderTest } from "./run-store.contract.ts";

const later = at + 1_000_000_000;

/** Registers what every `RunStore` promises of removing runs that ended long ago. */
export function retentionContract(name: string, start: () => Promise<StoreUnderTest>): void {
  describe(`${name}: runs that ended long ago`, () => {
    let store: RunStore;
    let close: () => Promise<void>;
    beforeEach(async () => {
      ({ store, close } = await start());
    });
    afterEach(() => close());

    /** A run that ended at that time. */
    async function ended(runId: string, endedAt: number, fields: Partial<Run> = {}): Promise<Run> {
      const run = await created(store, { runId, status: "running" });
      return committed(store, change(run, { status: "completed", model: undefined, endedAt, ...fields }));
    }
    const idsOf = async (): Promise<string[]> => (await store.list({})).runs.map(({ runId }) => runId).toSorted();

    test("go in the order of their ends, a page at a time, by their status", async () => {
      // The first to be created is the last to end.
      for (const [index, endedAt] of [at + 50, at + 10, at + 30, at + 20, at + 40].entries()) {
        await ended(`run-${index}`, endedAt);
      }
      await ended("failed", at + 5, { status: "failed", stopReason: "deadline" });
      expect(await store.oldestEnd("completed")).toBe(at + 10);
      expect(await store.removeEnded("completed", at + 10, 10)).toEqual({ removed: [], kept: 0 });
      expect(await store.removeEnded("completed", at + 41, 2)).toEqual({ removed: ["run-1", "run-3"], kept: 0 });
      expect(await store.removeEnded("completed", at + 41, 2)).toEqual({ removed: ["run-2", "run-4"], kept: 0 });
      expect(await store.removeEnded("completed", at + 41, 2)).toEqual({ removed: [], kept: 0 });
      expect(await idsOf()).toEqual(["failed", "run-0"]);
      expect(await store.oldestEnd("completed")).toBe(at + 50);
      expect(await store.oldestEnd("cancelled")).toBeUndefined();
      expect((await store.removeEnded("failed", later, 10)).removed).toEqual(["failed"]);
      expect(await store.count({ agent: "assistant" })).toMatchObject({ completed: 1, failed: 0 });
    });

    test("stay while they go on, wait, or still have others to tell", async () => {
      await created(store, { runId: "going", status: "running" });
      await created(store, { runId: "waits", status: "waiting", model: undefined });
      const retried = await ended("retried", at + 1, { status: "failed" });
      await committed(
        store,
        change(retried, { status: "running", endedAt: undefined, model: { attempt: 1, owedAt: 2 } }),
      );
      const place = { state: "leaving" as const, round: 1, owedAt: 2 };
      await ended("tells", at + 1, { session: "s1", baseMessage: 0, messageCount: 0, place });
      await ended("goes", at + 2);
      for (const status of ["completed", "failed", "cancelled", "rejected"] as const) {
        const { removed, kept } = await store.removeEnded(status, later, 10);
        expect(removed).toEqual(status === "completed" ? ["goes"] : []);
        expect(kept).toBe(status === "completed" ? 1 : 0);
      }
      expect(await idsOf()).toEqual(["going", "retried", "tells", "waits"]);
      // What stays is passed over.
      await ended("next", at + 3);
      expect(await store.removeEnded("completed", later, 1, { offset: 1 })).toEqual({ removed: ["next"], kept: 0 });
    });

    test("leave no definition behind that was put last before a time, and the oldest that is kept can be told", async () => {
      expect(await store.oldestCreation()).toBeUndefined();
      await created(store, { runId: "young", createdAt: at + 2 });
      await created(store, { runId: "old", createdAt: at + 1, status: "waiting", model: undefined });
      await ended("ended", at + 9, {});
      expect(await store.oldestCreation()).toBe(at);
      expect((await store.removeEnded("completed", later, 10)).removed).toEqual(["ended"]);
      expect(await store.oldestCreation()).toBe(at + 1);
      const definition = { name: "a", instructions: "", model: "m", provider: "p", tools: [], request: {}, limits: {} };
      const hashes = ["h1", "h2", "h3"];
      for (const hash of hashes) await store.putDefinition(hash, definition);
      expect(await store.removeDefinitions(0, 10)).toBe(0);
      expect(await store.getDefinition("h1")).toEqual(definition);
      const farAway = Number.MAX_SAFE_INTEGER;
      expect(await store.removeDefinitions(farAway, 2)).toBe(2);
      expect(await store.removeDefinitions(farAway, 2)).toBe(1);
      expect(await store.removeDefinitions(farAway, 2)).toBe(0);
      for (const hash of hashes) expect(await store.getDefinition(hash)).toBeNull();
    });

    test("nothing that is whole is removed as damaged", async () => {
      await created(store, { runId: "going", status: "running" });
      await ended("ended", at + 1);
      for (const runId of ["going", "ended", "nobody"]) expect(await store.removeDamaged(runId)).toBeNull();
      expect(await idsOf()).toEqual(["ended", "going"]);
    });

    test("stay while they are to be spared", async () => {
      await ended("spared", at + 1);
      await ended("goes", at + 2);
      const spare = async ({ runId }: Run): Promise<boolean> => runId === "spared";
      expect(await store.removeEnded("completed", later, 10, { spare })).toEqual({ removed: ["goes"], kept: 1 });
      expect(await idsOf()).toEqual(["spared"]);
    });

    test("a retried run that ends again is kept from that end on", async () => {
      const run = await ended("run-a", at + 1, { status: "failed" });
      const again = await committed(store, change(run, { status: "running", endedAt: undefined }));
      await committed(store, change(again, { status: "failed", model: undefined, endedAt: at + 100 }));
      expect((await store.removeEnded("failed", at + 100, 10)).removed).toEqual([]);
      expect((await store.removeEnded("failed", at + 101, 10)).removed).toEqual(["run-a"]);
      expect(await store.oldestEnd("failed")).toBeUndefined();
    });

    test("rejected records go as well, and a run that takes the id of one is kept by its own end", async () => {
      const reject = (runId: string): Promise<unknown> => {
        const made = makeRejectedRun({ runId, agent: "a", reason: "r", trace, at, token: nextToken() });
        return store.create(made, [], []);
      };
      await reject("bad");
      await reject("corrected");
      await created(store, { runId: "corrected" });
      expect(await store.removeEnded("rejected", later, 10)).toEqual({ removed: ["bad"], kept: 0 });
      expect(await idsOf()).toEqual(["corrected"]);
    });

    test("a session's transcript goes once no run of it is left and that was long ago", async () => {
      const inSession = async (runId: string, endedAt: number): Promise<Run> => {
        const fields = { runId, session: "s1", baseMessage: 0, messageCount: 0, model: undefined };
        const run = newRun({ ...fields, place: { state: "active", round: 1, owedAt: 1 } }, []);
        await store.create(run, [], [runCreated(run)]);
        return committed(store, change(run, { place: undefined, status: "completed", endedAt }, {}));
      };
      const first = newRun({ session: "s1", baseMessage: 0, messageCount: 0, runId: "one", model: undefined }, []);
      await store.create(first, [], [runCreated(first)]);
      const said = change(first, { status: "completed", endedAt: at + 1 }, { append: [message("a")] });
      await committed(store, said);
      await inSession("two", at + 9);
      const transcript = (): Promise<unknown[]> => store.readMessages("session:s1", 0, 9);
      expect((await store.removeEnded("completed", at + 5, 10)).removed).toEqual(["one"]);
      expect(await store.removeIdleSessions(later, 10)).toBe(0);
      expect(await transcript()).toEqual([user("a")]);
      expect((await store.removeEnded("completed", at + 50, 10)).removed).toEqual(["two"]);
      // Idle since its last run ended.
      expect(await store.removeIdleSessions(at + 9, 10)).toBe(0);
      expect(await transcript()).toEqual([user("a")]);
      expect(await store.removeIdleSessions(at + 10, 10)).toBe(1);
      expect(await transcript()).toEqual([]);
      expect(await store.readSession("s1", 9)).toEqual({ line: [], messageCount: 0 });
      expect(await store.removeIdleSessions(later, 10)).toBe(0);
    });

    test("a session that has got a run again keeps its transcript", async () => {
      const run = newRun({ session: "s1", baseMessage: 0, messageCount: 0, runId: "one", model: undefined }, []);
      await store.create(run, [], [runCreated(run)]);
      const said = change(run, { status: "completed", endedAt: at + 1 }, { append: [message("a")] });
      expect(await store.remove(await committed(store, said))).toBe(true);
      const next = newRun({ session: "s1", baseMessage: 0, messageCount: 1, runId: "two", model: undefined }, []);
      await store.create(next, [], [runCreated(next)]);
      expect(await store.removeIdleSessions(Date.now() + later, 10)).toBe(1);
      expect(await store.readMessages("session:s1", 0, 9)).toEqual([user("a")]);
      expect(await store.removeIdleSessions(Date.now() + later, 10)).toBe(0);
    });
  });
}
