import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { makeRejectedRun } from "../../src/core/new-run.ts";
import { type Run, type RunStatus, runStatuses } from "../../src/core/run.ts";
import type { RunFilter, RunStore } from "../../src/ports.ts";
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
import type { StoreUnderTest } from "./run-store.contract.ts";

/** Registers what every `RunStore` promises of finding, counting and removing runs. */
export function runIndexContract(name: string, start: () => Promise<StoreUnderTest>): void {
  describe(`${name}: the runs of a store`, () => {
    let store: RunStore;
    let close: () => Promise<void>;
    beforeEach(async () => {
      ({ store, close } = await start());
    });
    afterEach(() => close());

    listing(() => store);
    filtering(() => store);
    counting(() => store);
    removing(() => store);
    owingRuns(() => store);
  });
}

type Store = () => RunStore;

/** So many runs, the newest first. */
async function many(store: RunStore, count: number, fields: (index: number) => Partial<Run>): Promise<Run[]> {
  const runs: Run[] = [];
  for (let index = 0; index < count; index += 1) {
    runs.push(await created(store, { runId: `run-${index}`, createdAt: at + index, ...fields(index) }));
  }
  return runs.reverse();
}

/** The ids of all pages. */
async function pagesOf(store: RunStore, filter: RunFilter, between?: () => Promise<unknown>): Promise<string[]> {
  const ids: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await store.list({ ...filter, cursor });
    if (filter.limit !== undefined) expect(page.runs.length).toBeLessThanOrEqual(filter.limit);
    ids.push(...page.runs.map((run) => run.runId));
    cursor = page.cursor;
    await between?.();
  } while (cursor !== undefined);
  return ids;
}

const idsOf = (runs: Run[]): string[] => runs.map((run) => run.runId);

function listing(store: Store): void {
  test("lists the newest first, page by page", async () => {
    const runs = await many(store(), 7, () => ({}));
    expect(await store().list({})).toEqual({ runs });
    const first = await store().list({ limit: 3 });
    expect(first.runs).toEqual(runs.slice(0, 3));
    expect(first.cursor).toBeTypeOf("string");
    expect(await pagesOf(store(), { limit: 3 })).toEqual(runs.map((run) => run.runId));
    expect(await pagesOf(store(), { limit: 7 })).toEqual(runs.map((run) => run.runId));
    expect(await pagesOf(store(), { limit: 1 })).toEqual(runs.map((run) => run.runId));
  });

  test("filters by status and agent, also as they change", async () => {
    const status = (index: number): RunStatus => (index % 2 === 0 ? "running" : "waiting");
    const runs = await many(store(), 12, (index) => ({
      status: status(index),
      agent: index % 3 === 0 ? "three" : "other",
    }));
    const ids = (fits: (run: Run) => boolean): string[] => runs.filter(fits).map((run) => run.runId);
    expect(await pagesOf(store(), { status: "running", limit: 2 })).toEqual(ids((run) => run.status === "running"));
    expect(await pagesOf(store(), { agent: "three", limit: 2 })).toEqual(ids((run) => run.agent === "three"));
    const both = { status: "waiting", agent: "other" } as const;
    expect(await pagesOf(store(), { ...both, limit: 1 })).toEqual(
      ids((run) => run.status === both.status && run.agent === both.agent),
    );
    expect(await pagesOf(store(), { status: "failed" })).toEqual([]);
    expect(await pagesOf(store(), { agent: "nobody", status: "running" })).toEqual([]);

    const [newest] = runs;
    if (!newest) throw new Error("no runs");
    await committed(store(), change(newest, { status: "failed", stopReason: "deadline" }));
    expect(await pagesOf(store(), { status: "failed" })).toEqual([newest.runId]);
    expect(await pagesOf(store(), { status: newest.status })).not.toContain(newest.runId);
    expect(await pagesOf(store(), { agent: newest.agent })).toContain(newest.runId);
  });

  test("a cursor keeps its place while runs come and change", async () => {
    const runs = await many(store(), 9, () => ({ status: "running" }));
    let extra = 0;
    const seen = await pagesOf(store(), { status: "running", limit: 2 }, async () => {
      extra += 1;
      // A newer run comes, and the one the page ended with goes elsewhere.
      await created(store(), { runId: `extra-${extra}`, createdAt: at + 1_000 + extra, status: "running" });
      const last = runs[extra * 2 - 1];
      if (last) await committed(store(), change(last, { status: "completed" }));
    });
    expect(seen).toEqual(runs.map((run) => run.runId));
  });

  test("runs of the same moment are each listed once", async () => {
    const runs = await many(store(), 7, () => ({ createdAt: at }));
    const seen = await pagesOf(store(), { limit: 2 });
    expect(seen.toSorted()).toEqual(runs.map((run) => run.runId).toSorted());
    expect(seen).toEqual(await pagesOf(store(), { limit: 3 }));
  });

  test("never lists more than a thousand", async () => {
    const before = await many(store(), 2, () => ({}));
    expect((await store().list({ limit: 5_000 })).runs).toHaveLength(before.length);
    const runs = Array.from({ length: 1_000 }, (_, index) => newRun({ runId: `more-${index}` }));
    await Promise.all(runs.map((run) => store().create(run, [user("hello")], [runCreated(run)])));
    const page = await store().list({ limit: 5_000 });
    expect(page.runs).toHaveLength(1_000);
    expect((await store().list({ limit: 5_000, cursor: page.cursor })).runs).toHaveLength(2);
    expect((await store().list({})).runs).toHaveLength(50);
  });

  test("refuses a limit or a cursor that is none", async () => {
    for (const filter of [
      { limit: 0 },
      { limit: 1.5 },
      { limit: Number.NaN },
      { cursor: "" },
      { cursor: "[x" },
      { cursor: "+" },
    ]) {
      await expect(store().list(filter)).rejects.toMatchObject({ code: "invalid" });
    }
  });
}

function filtering(store: Store): void {
  test("lists a tenant's runs alone, and with other filters", async () => {
    const tenantOf = (index: number): string | undefined => [undefined, "t1", "t2"][index % 3];
    const runs = await many(store(), 12, (index) => ({
      ...(tenantOf(index) === undefined ? {} : { tenant: tenantOf(index) }),
      status: index < 6 ? "running" : "waiting",
      session: `s${index % 2}`,
    }));
    const ids = (fits: (run: Run) => boolean): string[] => idsOf(runs.filter(fits));
    expect(await pagesOf(store(), { tenant: "t1", limit: 2 })).toEqual(ids((run) => run.tenant === "t1"));
    const both = { tenant: "t2", status: "waiting" } as const;
    expect(await pagesOf(store(), both)).toEqual(ids((run) => run.tenant === "t2" && run.status === "waiting"));
    const session = { tenant: "t1", session: "s1" };
    expect(await pagesOf(store(), session)).toEqual(ids((run) => run.tenant === "t1" && run.session === "s1"));
    expect(await pagesOf(store(), { tenant: "t" })).toEqual([]);
    expect(await pagesOf(store(), {})).toEqual(idsOf(runs));
    // Another tenant's run is not found by its id either.
    expect(await pagesOf(store(), { tenant: "t1", search: "run-2" })).toEqual([]);
  });

  test("lists runs by text in their metadata", async () => {
    const runs = await many(store(), 9, (index) => ({
      metadata: { customer: `c${index % 2}`, "a.b": "x", number: index, nested: { customer: "c0" } },
    }));
    const odd = idsOf(runs.filter(({ metadata }) => metadata.customer === "c1"));
    expect(await pagesOf(store(), { metadata: { customer: "c1" }, limit: 2 })).toEqual(odd);
    expect(await pagesOf(store(), { metadata: { customer: "c1", "a.b": "x" } })).toEqual(odd);
    expect(await pagesOf(store(), { metadata: { customer: "c1", "a.b": "y" } })).toEqual([]);
    expect(await pagesOf(store(), { metadata: { number: "1" } })).toEqual([]);
    expect(await pagesOf(store(), { metadata: { toString: "c1" } })).toEqual([]);
    expect(await pagesOf(store(), { metadata: {} })).toEqual(idsOf(runs));
  });

  test("lists runs of a time, from its first moment to before its end", async () => {
    const runs = await many(store(), 9, (index) => ({ status: index % 2 === 0 ? "running" : "waiting" }));
    const between = { createdAfter: at + 2, createdBefore: at + 7 };
    const within = runs.filter(({ createdAt }) => createdAt >= at + 2 && createdAt < at + 7);
    expect(within).toHaveLength(5);
    for (const limit of [1, 2, 5, 50]) {
      expect(await pagesOf(store(), { ...between, limit })).toEqual(idsOf(within));
    }
    const running = { ...between, status: "running", agent: "assistant", limit: 2 } as const;
    expect(await pagesOf(store(), running)).toEqual(idsOf(within.filter((run) => run.status === "running")));
    expect(await pagesOf(store(), { createdAfter: at + 8 })).toEqual(["run-8"]);
    expect(await pagesOf(store(), { createdBefore: at + 1 })).toEqual(["run-0"]);
    expect(await pagesOf(store(), { createdAfter: at + 5, createdBefore: at + 5 })).toEqual([]);
    const { cursor } = await store().list({ createdBefore: at + 7, limit: 2 });
    expect(await pagesOf(store(), { createdBefore: at + 3 })).toEqual(["run-2", "run-1", "run-0"]);
    expect(idsOf((await store().list({ createdBefore: at + 3, cursor })).runs)).toEqual(["run-2", "run-1", "run-0"]);
  });

  test("finds runs by a part of their id, the one that has it whole first", async () => {
    const names = ["order-1", "order-12", "order-123", "other", "1"];
    await many(store(), names.length, (index) => ({ runId: `x${names[index]}` }));
    for (const limit of [1, 2, 50]) {
      expect(await pagesOf(store(), { search: "order", limit })).toEqual(["xorder-123", "xorder-12", "xorder-1"]);
      expect(await pagesOf(store(), { search: "xorder-1", limit })).toEqual(["xorder-1", "xorder-123", "xorder-12"]);
      expect(await pagesOf(store(), { search: "xorder-12", limit })).toEqual(["xorder-12", "xorder-123"]);
    }
    expect(await pagesOf(store(), { search: "12", status: "queued", agent: "assistant" })).toHaveLength(2);
    expect(await pagesOf(store(), { search: "xorder-1", status: "failed" })).toEqual([]);
    expect(await pagesOf(store(), { search: "xother", createdBefore: at })).toEqual([]);
    expect(await pagesOf(store(), { search: "0000" })).toEqual([]);
    expect(await pagesOf(store(), { search: "ORDER" })).toEqual([]);
  });

  test("refuses filters that do not fit, and names the fields", async () => {
    const wrong = [
      [{ status: "done" }, /status/],
      [{ tenant: "" }, /tenant/],
      [{ tenant: "a:b" }, /tenant/],
      [{ metadata: { customer: 1 } }, /metadata\.customer/],
      [{ metadata: Object.fromEntries(Array.from({ length: 21 }, (_, index) => [`f${index}`, "x"])) }, /metadata/],
      [{ createdAfter: -1 }, /createdAfter/],
      [{ createdBefore: 1.5, createdAfter: Number.NaN }, /createdAfter.*createdBefore/],
      [{ search: "" }, /search/],
      [{ search: "a*" }, /search/],
      [{ limit: "5" }, /limit/],
      [{ tenat: "t1" }, /tenat/],
    ] as const;
    for (const [filter, message] of wrong) {
      await expect(store().list(filter as unknown as RunFilter)).rejects.toMatchObject({
        code: "invalid",
        message: expect.stringMatching(message),
      });
    }
    for (const filter of [{ tenant: "" }, { agent: 5 }, { tenat: "t1" }]) {
      await expect(store().count(filter as unknown as RunFilter)).rejects.toMatchObject({ code: "invalid" });
    }
  });
}

const none = Object.fromEntries(runStatuses.map((status) => [status, 0])) as Record<RunStatus, number>;

function counting(store: Store): void {
  test("counts runs by status, of everybody, of an agent, of a tenant and of both", async () => {
    expect(await store().count()).toEqual(none);
    expect(await store().count({ tenant: "t1", agent: "a" })).toEqual(none);
    await created(store(), { runId: "run-1", agent: "a", tenant: "t1" });
    await created(store(), { runId: "run-2", agent: "a b", tenant: "t1", status: "running" });
    await created(store(), { runId: "run-3", agent: "a", tenant: "t2" });
    await created(store(), { runId: "run-4", agent: "a" });
    expect(await store().count()).toEqual({ ...none, queued: 3, running: 1 });
    expect(await store().count({})).toEqual({ ...none, queued: 3, running: 1 });
    expect(await store().count({ agent: "a" })).toEqual({ ...none, queued: 3 });
    expect(await store().count({ agent: "a b" })).toEqual({ ...none, running: 1 });
    expect(await store().count({ tenant: "t1" })).toEqual({ ...none, queued: 1, running: 1 });
    expect(await store().count({ tenant: "t2" })).toEqual({ ...none, queued: 1 });
    expect(await store().count({ tenant: "t1", agent: "a" })).toEqual({ ...none, queued: 1 });
    expect(await store().count({ tenant: "t2", agent: "a b" })).toEqual(none);
    expect(await store().count({ tenant: "t" })).toEqual(none);
  });

  test("a run moves from count to count with its status, once however often it is sent", async () => {
    const run = await created(store(), { tenant: "t1" });
    const running = change(run, { status: "running" });
    await committed(store(), running);
    await committed(store(), running);
    const more = await committed(store(), change(running.run, { turns: 1 }));
    for (const filter of [{}, { tenant: "t1" }, { agent: "assistant" }]) {
      expect(await store().count(filter)).toEqual({ ...none, running: 1 });
    }
    expect(await store().commit(change(run, { status: "failed" }))).toMatchObject({ committed: false });
    await committed(store(), change(more, { status: "completed", model: undefined }));
    for (const filter of [{}, { tenant: "t1" }, { agent: "assistant" }]) {
      expect(await store().count(filter)).toEqual({ ...none, completed: 1 });
    }
  });

  test("a rejected record that is replaced is not counted any more", async () => {
    const reject = (agent: string): Promise<unknown> => {
      const made = makeRejectedRun({ runId: "run-a", agent, reason: "r", trace, at, token: nextToken() });
      return store().create(made, [], []);
    };
    await reject("unknown");
    await reject("unknown");
    expect(await store().count({ agent: "unknown" })).toEqual({ ...none, rejected: 1 });
    await reject("other");
    expect(await store().count({ agent: "unknown" })).toEqual(none);
    await created(store(), { tenant: "t1" });
    expect(await store().count()).toEqual({ ...none, queued: 1 });
    expect(await store().count({ agent: "other" })).toEqual(none);
    expect(await store().count({ tenant: "t1" })).toEqual({ ...none, queued: 1 });
  });
}

function removing(store: Store): void {
  /** A run that has ended, with something in every place that a run keeps things in. */
  async function ended(fields: Partial<Run> = {}): Promise<Run> {
    let run = await created(store(), { tenant: "t1", ...fields });
    const results = [toolResult("call-1-2", "early")];
    run = await committed(store(), change(run, { status: "running" }, { results, entries: [inputReceived(2)] }));
    await store().putOutput(run.runId, "call-1-1.a", "x".repeat(100_000));
    await store().publishLive(run.runId, [{ turn: 1, attempt: 1, execution: "e", text: "x" }]);
    return committed(store(), change(run, { status: "failed", stopReason: "model_error", endedAt: at }));
  }

  test("removes all that is kept of a run, and nothing of others", async () => {
    const other = await ended({ runId: "run-b" });
    const run = await ended();
    expect(await store().remove(run)).toBe(true);
    expect(await store().load("run-a")).toBeNull();
    expect(await store().loadWithMessages("run-a")).toBeNull();
    expect(await store().readMessages("run-a", 0, 9)).toEqual([]);
    expect(await store().readResults("run-a")).toEqual({});
    expect(await store().readFeed("run-a", 0, 9)).toEqual([]);
    expect((await store().readLive("run-a", "0")).deltas).toEqual([]);
    expect(await store().readOutput("run-a", "call-1-1.a", 0, 9)).toBeUndefined();
    expect(await store().commit(change(run))).toEqual({ committed: false, run: null });
    for (const filter of [{}, { status: "failed" }, { agent: "assistant" }, { tenant: "t1" }] as const) {
      expect((await store().list(filter)).runs).toEqual([other]);
    }
    for (const filter of [{}, { agent: "assistant" }, { tenant: "t1" }]) {
      expect(await store().count(filter)).toEqual({ ...none, failed: 1 });
    }
    expect(await store().readFeed("run-b", 0, 9)).toHaveLength(2);
    expect(await store().readOutput("run-b", "call-1-1.a", 0, 3)).toBe("xxx");
    expect(await store().readResults("run-b")).toEqual({ "call-1-2": toolResult("call-1-2", "early") });
  });

  test("leaves a run that was changed since it was read", async () => {
    const run = await ended();
    const retried = await committed(store(), change(run, { status: "queued", model: { attempt: 1, owedAt: 9 } }));
    expect(await store().remove(run)).toBe(false);
    expect(await store().remove({ ...run, revision: retried.revision })).toBe(false);
    expect(await store().remove({ ...run, token: retried.token })).toBe(false);
    expect(await store().load("run-a")).toEqual(retried);
    expect(await store().owing(at + 100, 9)).toEqual(["run-a"]);
    expect(await store().readOutput("run-a", "call-1-1.a", 0, 3)).toBe("xxx");
    expect(await store().remove(retried)).toBe(true);
    expect(await store().owing(at + 100, 9)).toEqual([]);
    expect(await store().count()).toEqual(none);
  });

  test("a removal sent again finds the run gone, and its id is free", async () => {
    const run = await ended();
    expect(await store().remove(run)).toBe(true);
    expect(await store().remove(run)).toBe(true);
    const next = await created(store(), {}, [user("another")]);
    expect(await store().loadWithMessages("run-a")).toEqual({ run: next, messages: [user("another")] });
    expect(await store().readFeed("run-a", 0, 9)).toHaveLength(1);
    expect(await store().remove(run)).toBe(false);
  });

  test("keeps the transcript of a session that the run was part of", async () => {
    const place = { state: "active" as const, round: 1, owedAt: 1 };
    const start = newRun({ session: "s1", baseMessage: 0, messageCount: 0, place }, []);
    await store().create(start, [], [runCreated(start)]);
    const said = change(start, { place: undefined, status: "completed", model: undefined }, { append: [message("a")] });
    const run = await committed(store(), said);
    expect(await store().remove(run)).toBe(true);
    expect(await store().readMessages("session:s1", 0, 9)).toEqual([user("a")]);
    expect((await store().list({ session: "s1" })).runs).toEqual([]);
    expect((await store().readSession("s1", 9)).line).toEqual([]);
  });
}

function owingRuns(store: Store): void {
  test("lists who owes something, by since when", async () => {
    const model = { attempt: 1, owedAt: 1 };
    await created(store(), { runId: "late", updatedAt: at + 30, model });
    await created(store(), { runId: "early", updatedAt: at + 10, model });
    const middle = await created(store(), { runId: "middle", updatedAt: at, model: { ...model, notBefore: at + 20 } });
    await created(store(), {
      runId: "asks",
      updatedAt: at,
      model: undefined,
      calls: [openCall(1, { state: "approval", askedAt: at })],
    });
    expect(await store().owing(at + 100, 10)).toEqual(["early", "middle", "late"]);
    expect(await store().owing(at + 20, 10)).toEqual(["early"]);
    expect(await store().owing(at + 100, 2)).toEqual(["early", "middle"]);
    expect(await store().owing(at + 100, 0)).toEqual([]);
    expect(await store().owing(at + 100, 2, 1)).toEqual(["middle", "late"]);
    expect(await store().owing(at + 100, 2, 3)).toEqual([]);

    const later = await committed(store(), change(middle, { updatedAt: at + 50, model }));
    expect(await store().owing(at + 100, 10)).toEqual(["early", "late", "middle"]);
    await committed(store(), change(later, { status: "completed", model: undefined }));
    expect(await store().owing(at + 100, 10)).toEqual(["early", "late"]);
  });

  test("a run that is there keeps its place among those that owe something", async () => {
    await created(store(), { model: { attempt: 1, owedAt: 1 } });
    expect(await store().dropOwing("run-a")).toBe(false);
    expect(await store().dropOwing("nobody")).toBe(false);
    expect(await store().owing(at + 100, 10)).toEqual(["run-a"]);
  });

  test("a run with several steps owes since the earliest of them", async () => {
    const calls = [openCall(1, { notBefore: at + 500 }), openCall(2, { notBefore: at + 40 })];
    await created(store(), { model: undefined, calls });
    expect(await store().owing(at + 40, 10)).toEqual([]);
    expect(await store().owing(at + 41, 10)).toEqual(["run-a"]);
  });
}
