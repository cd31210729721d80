// Catches: trouble of a fleet that the doctor calls well, and advice that does not fit what was found.
import { expect, test } from "vitest";
import type { Diagnosis } from "../../src/cli/doctor/diagnosis.ts";
import { judgeFleet, judgePersons } from "../../src/cli/doctor/fleet.ts";
import { judgeInfo } from "../../src/cli/doctor/redis.ts";
import { judgeRetention } from "../../src/cli/doctor/storage.ts";
import type { OpenCallView, RunView } from "../../src/engine/run-view.ts";
import type { FleetView, GateView, QueueState, WorkerPresence } from "../../src/ports.ts";

const at = 1_000_000_000;
const worker: WorkerPresence = {
  ...{ id: "w1", host: "box", pid: 1, version: "0.1.0", startedAt: 0, seenAt: at, queues: ["model"] },
  ...{ concurrency: 10, running: 3, agents: ["a", "b"] },
};
const queue: QueueState = { name: "model", waiting: 0, active: 0, delayed: 0, workers: 1 };
const gate: GateView = { key: "k", kind: "tool", name: "pay", inside: 1, waiting: 2 };
const fleet = (fields: Partial<FleetView>): FleetView => ({
  at,
  redis: { version: "7.0.15", usedMemoryBytes: 1, clients: 1, roundTripMs: 1 },
  ...{ workers: [worker], agents: [], queues: [queue], gates: [], owing: { count: 0 } },
  counts: { queued: 0, running: 0, waiting: 0, paused: 0, completed: 0, failed: 0, cancelled: 0, rejected: 0 },
  ...fields,
});
const of = (found: Diagnosis[], check: string): Diagnosis | undefined => found.find((one) => one.check === check);

test.each<[string, Partial<FleetView>, [check: string, state: "ok" | "warning", detail: RegExp]]>([
  ["an idle queue", {}, ["queue model", "ok", /^0 waiting, 0 active, 0 delayed$/]],
  [
    "a short wait",
    { queues: [{ ...queue, waiting: 1, oldestAgeMs: 900 }] },
    ["queue model", "ok", /oldest for 900 ms$/],
  ],
  [
    "a long wait",
    { queues: [{ ...queue, waiting: 4, oldestAgeMs: 180_000, workers: 2 }] },
    ["queue model", "warning", /the oldest for 3 min; 2 workers serve it: start more, or raise --concurrency$/],
  ],
  [
    "a queue that nobody serves",
    { queues: [{ ...queue, name: "browser", waiting: 1, oldestAgeMs: 5, workers: 0 }] },
    ["queue browser", "warning", /no worker serves it; start one$/],
  ],
  [
    "a queue that somebody paused in BullMQ",
    { queues: [{ ...queue, waiting: 4, oldestAgeMs: 5, paused: true }] },
    [
      "queue model",
      "warning",
      /^4 waiting, .*paused by BullMQ's own pause.*resume it with the program that paused it$/,
    ],
  ],
  ["workers", {}, ["workers", "ok", /^1 process on box, 3 of 10 steps at a time; agents a, b$/]],
  [
    "workers of two versions",
    { workers: [worker, { ...worker, id: "w2", host: "other", version: "0.2.0" }] },
    ["workers", "warning", /^2 processes on box, other, 6 of 20 .*of versions 0\.1\.0, 0\.2\.0: finish the deploy$/],
  ],
  ["nobody and nothing", { workers: [] }, ["workers", "ok", /^none, and nothing waits$/]],
  ["limits", { gates: [gate] }, ["limits", "ok", /^1 limit over the fleet, none switched off: 1 inside, 2 waiting$/]],
  [
    "a breaker that is open",
    { gates: [{ ...gate, breaker: { version: 1, failures: 5, openUntil: at + 60_000 } }] },
    ["tool pay", "warning", /^switched off for 1 min more after 5 failures in a row/],
  ],
  [
    "a breaker that was open",
    { gates: [{ ...gate, breaker: { version: 1, failures: 5, openUntil: at - 1 } }] },
    ["limits", "ok", /none switched off/],
  ],
  [
    "a model that is paused",
    { gates: [{ ...gate, kind: "model", name: "m", pausedUntil: at + 30_000 }] },
    ["model m", "warning", /^paused for 30 s more, as its server asked, 2 waiting: lower its rate/],
  ],
])("%s", (_, fields, [check, state, detail]) => {
  const found = of(judgeFleet(fleet(fields), new Set()), check);
  expect(found).toMatchObject({ state, detail: expect.stringMatching(detail) as string });
});

test("agents that have runs and no worker are named", () => {
  expect(of(judgeFleet(fleet({}), new Set(["a", "lost\u001b[2J"])), "agents")).toMatchObject({
    state: "warning",
    detail: expect.stringMatching(/^no worker knows lost\[2J, of which/) as string,
  });
  expect(of(judgeFleet(fleet({}), new Set(["a", "b"])), "agents")).toBeUndefined();
  const many = fleet({ workers: [{ ...worker, agents: Array.from({ length: 14 }, (_, index) => `a${index}`) }] });
  expect(of(judgeFleet(many, new Set()), "workers")?.detail).toMatch(/a9 and 4 more$/);
});

test("calls that wait for a person, and those that somebody forgot", () => {
  const run = (...openCalls: Partial<OpenCallView>[]): RunView => ({ runId: "run-1", openCalls }) as unknown as RunView;
  expect(judgePersons([], at)).toMatchObject({ state: "ok", detail: "no call waits for anybody" });
  const caller = { callId: "call-1-3", state: "answer" as const, from: "caller" as const, askedAt: 0 };
  const fresh = { callId: "call-1-1", state: "approval" as const, askedAt: at - 7_200_000 };
  expect(judgePersons([run(fresh, caller, { callId: "c", state: "ready" })], at)).toEqual({
    check: "persons",
    state: "ok",
    detail: "1 call waits for a person, the oldest for 2 h",
  });
  const old = { callId: "call-1-2", state: "answer" as const, from: "person" as const, askedAt: at - 3 * 86_400_000 };
  expect(judgePersons([run(fresh, old)], at)).toMatchObject({
    state: "warning",
    detail: expect.stringMatching(
      /^2 calls wait for a person, the oldest for 3 d \(run-1 call-1-2, run-1 call-1-1\)/,
    ) as string,
  });
});

const mib = 1_048_576;
test.each([
  ["memory", { used_memory: `${10 * mib}`, maxmemory: "0" }, "ok", /^10\.0 MiB used, no limit set: with a maxmemory/],
  [
    "memory",
    { used_memory: `${50 * mib}`, maxmemory: `${100 * mib}` },
    "ok",
    /^50\.0 MiB of 100\.0 MiB used, 40\.0 MiB left for new runs$/,
  ],
  [
    "memory",
    { used_memory: `${85 * mib}`, maxmemory: `${100 * mib}` },
    "warning",
    /5\.0 MiB left for new runs: raise maxmemory, shorten DROVER_RETENTION_MS/,
  ],
  [
    "memory",
    { used_memory: `${90 * mib}`, maxmemory: `${100 * mib}` },
    "error",
    /from 90 % on new runs are refused: raise maxmemory/,
  ],
  ["fragmentation", { used_memory: `${90 * mib}`, mem_fragmentation_ratio: "1.10" }, "ok", /1\.10 times/],
  ["fragmentation", { used_memory: `${90 * mib}`, mem_fragmentation_ratio: "2.20" }, "warning", /activedefrag/],
  ["fragmentation", { used_memory: `${90 * mib}`, mem_fragmentation_ratio: "0.50" }, "warning", /swapped out/],
  ["connections", { connected_clients: "900", maxclients: "1000" }, "warning", /^900 of 1000 open: raise maxclients/],
  ["connections", { connected_clients: "9", maxclients: "1000" }, "ok", /^9 of 1000 open$/],
  ["connections", { connected_clients: "9" }, "ok", /^9 open$/],
])("Redis: %s of %j is %s", (check, info, state, detail) => {
  expect(of(judgeInfo(info as Record<string, string>), check)).toMatchObject({
    state,
    detail: expect.stringMatching(detail) as string,
  });
});

test("a small Redis is not called fragmented", () => {
  expect(of(judgeInfo({ used_memory: "1000", mem_fragmentation_ratio: "9" }), "fragmentation")).toBeUndefined();
});

const day = 86_400_000;
const all = { completed: day, failed: 7 * day, cancelled: day, rejected: day };
test.each([
  [{}, undefined, "ok", /^ended runs are kept until somebody deletes them, none is kept; DROVER_RETENTION_MS/],
  [{ completed: 0 }, 3 * day, "ok", /until somebody deletes them, the oldest ended 3 d ago/],
  [all, 6 * day, "ok", /^ended runs are kept: completed 1 d, failed 7 d, .*; the oldest ended 6 d ago$/],
  [all, 8 * day, "warning", /the oldest ended 8 d ago: do workers run, with the same DROVER_RETENTION_MS\?$/],
  [{ completed: day }, 9 * day, "ok", /completed 1 d, others for ever; the oldest ended 9 d ago$/],
])("retention %j with a run that ended %s ms ago is %s", (retention, oldestMs, state, detail) => {
  expect(judgeRetention(retention, oldestMs)).toMatchObject({
    check: "retention",
    state,
    detail: expect.stringMatching(detail) as string,
  });
});
