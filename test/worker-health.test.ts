// Would catch a worker that looks well and takes nothing, and one that is started again for no fault of its own.
import { expect, test } from "vitest";
import type { FleetView } from "../src/ports.ts";
import { combineHealth, createWorkerHealth, type WorkerHealthOptions } from "../src/worker-health.ts";

const stuckAfterMs = 60_000;
let now = 1_000_000;

function healthOf(oldestAgeMs: number | undefined, more: Partial<WorkerHealthOptions> = {}) {
  const queues = [{ name: "model", waiting: 3, active: 0, delayed: 0, workers: 1, oldestAgeMs }];
  return createWorkerHealth({
    fleet: { read: async () => ({ queues }) as unknown as FleetView },
    queues: ["runs", "model"],
    concurrency: 10,
    stats: () => ({ running: 10, lastStartedAt: undefined }),
    lastStartedOn: () => undefined,
    isPaused: () => false,
    clock: { now: () => now },
    stuckAfterMs,
    ...more,
  });
}

const well = { live: true, ready: true };

test("a worker is stuck once work has waited and it has begun none for that long, and says where and since when", async () => {
  const health = healthOf(90_000);
  expect(await health()).toEqual(well); // it has only just come
  now += stuckAfterMs + 1_000;
  const { live, ready, reason } = await health();
  expect([live, ready]).toEqual([false, false]);
  expect(reason).toMatch(/wait in "model", the oldest for 90 s, .* none for 61 s; it holds 10 of at most 10/);
});

test.each<[what: string, oldestAgeMs: number | undefined, more: Partial<WorkerHealthOptions>]>([
  ["nothing waits", undefined, {}],
  ["what waits has only just come", 5_000, {}],
  ["it began a step of late", 90_000, { lastStartedOn: () => now - 1_000 }],
  ["it is paused", 90_000, { isPaused: () => true }],
  ["what waits is none of its queues'", 90_000, { queues: ["runs"] }],
])("a worker is well while %s", async (_what, oldestAgeMs, more) => {
  const health = healthOf(oldestAgeMs, more);
  now += stuckAfterMs + 1_000;
  expect(await health()).toEqual(well);
});

test("a queue whose steps wait for ever is not hidden by another one that goes on", async () => {
  const health = healthOf(90_000, {
    stats: () => ({ running: 1, lastStartedAt: now }),
    lastStartedOn: (queue) => (queue === "runs" ? now : undefined),
  });
  now += stuckAfterMs + 1_000;
  expect(await health()).toMatchObject({ live: false, reason: expect.stringContaining('wait in "model"') });
});

test("a worker that was paused for long is not stuck when it goes on, and is if it begins nothing then", async () => {
  let isPaused = true;
  const health = healthOf(90_000, { isPaused: () => isPaused });
  now += 10 * stuckAfterMs;
  expect(await health()).toEqual(well);
  isPaused = false;
  now += 1_000;
  expect(await health()).toEqual(well);
  now += stuckAfterMs;
  expect(await health()).toMatchObject({ live: false });
});

test("a queue that somebody paused in BullMQ is no reason to start it again, and it says why nothing is taken", async () => {
  const queues = [{ name: "model", waiting: 3, active: 0, delayed: 0, workers: 1, oldestAgeMs: 90_000, paused: true }];
  const health = healthOf(90_000, { fleet: { read: async () => ({ queues }) as unknown as FleetView } });
  now += 10 * stuckAfterMs;
  const { live, ready, reason } = await health();
  expect([live, ready, reason]).toEqual([true, false, expect.stringMatching(/wait in "model".*BullMQ's own pause/)]);
  queues[0] = { ...queues[0], paused: false } as (typeof queues)[0];
  now += 1_000;
  expect(await health()).toEqual(well);
  now += stuckAfterMs;
  expect(await health()).toMatchObject({ live: false });
});

test("without Redis it is not ready, and starting it again would help nobody", async () => {
  const refused = healthOf(undefined, { fleet: { read: () => Promise.reject(new Error("away")) } });
  const silent = healthOf(undefined, { fleet: { read: () => new Promise(() => {}) } });
  for (const health of [refused, silent]) {
    const { live, ready, reason } = await health();
    expect([live, ready, reason]).toEqual([true, false, expect.stringMatching(/Redis does not answer/)]);
  }
});

test("a process is as well as its worst worker, and not ready before it has one", () => {
  const away = { live: true, ready: false, reason: "away" };
  const stuck = { live: false, ready: false, reason: "stuck" };
  expect(combineHealth([])).toMatchObject({ live: true, ready: false });
  expect(combineHealth([well, well])).toEqual(well);
  expect(combineHealth([well, away])).toEqual(away);
  expect(combineHealth([away, stuck, well])).toEqual(stuck);
});
