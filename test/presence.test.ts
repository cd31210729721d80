import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { defineAgent } from "../src/define-agent.ts";
import { governAgents } from "../src/drover.ts";
import type { Presence } from "../src/ports.ts";
import { type PresenceOptions, startPresence } from "../src/presence.ts";
import { manualClock } from "../src/testing/manual-clock.ts";
import { createMemoryPresence } from "../src/testing/memory-operators.ts";
import { scriptedModel } from "../src/testing/scripted-model.ts";
import { collectWarnings } from "./redis/setup.ts";

const agent = defineAgent({ name: "a", instructions: "", model: scriptedModel([]), version: "7" });

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function setUp(change: Partial<Presence> = {}) {
  const clock = manualClock(1_000);
  const presence = { ...createMemoryPresence({ clock }), ...change };
  const { logger, warnings } = collectWarnings();
  let running = 0;
  const options: PresenceOptions = {
    presence,
    clock,
    logger,
    agents: governAgents([agent]),
    served: new Map([["a", ["tools-browser"]]]),
    worker: { id: "w1", queues: ["model", "tools"], concurrency: 10 },
    running: () => running,
    isPaused: () => false,
  };
  const pass = async (ms: number): Promise<void> => {
    clock.advance(ms);
    await vi.advanceTimersByTimeAsync(ms);
  };
  const run = (count: number): void => {
    running = count;
  };
  return { presence, options, warnings, clock, pass, run };
}

test("a worker tells at once, and again every five seconds, what it is and does", async () => {
  const { presence, options, clock, pass, run } = setUp();
  const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  const teller = startPresence(options);
  await pass(0);
  const own = { id: "w1", host: hostname(), pid: process.pid, version, startedAt: 1_000, queues: ["model", "tools"] };
  const first = { ...own, concurrency: 10, agents: ["a"], seenAt: 1_000, running: 0 };
  expect(await presence.workers()).toEqual([first]);
  const known = { name: "a", model: "scripted", tools: [], version: "7", queues: ["tools-browser"], seenAt: 1_000 };
  expect(await presence.agents()).toEqual([known]);
  expect((await presence.gates()).map(({ kind, name }) => `${kind} ${name}`)).toEqual(["model scripted"]);
  run(4);
  await pass(4_999);
  expect(await presence.workers()).toEqual([first]);
  await pass(1);
  expect(await presence.workers()).toEqual([{ ...first, seenAt: 6_000, running: 4 }]);
  await teller.stop();
  expect(await presence.workers()).toEqual([]);
  await pass(20_000);
  expect(await presence.workers()).toEqual([]);
  expect(clock.now()).toBe(26_000);
});

test("a worker that tells no more is gone after fifteen seconds", async () => {
  const { presence, options, clock, pass } = setUp();
  startPresence(options);
  await pass(0);
  vi.clearAllTimers();
  clock.advance(14_999);
  expect(await presence.workers()).toHaveLength(1);
  clock.advance(1);
  expect(await presence.workers()).toEqual([]);
});

test("trouble is logged once until it is over, and nothing is thrown", async () => {
  let isDown = true;
  const memory = createMemoryPresence({ clock: manualClock(1_000) });
  const tell: Presence["tell"] = async (...args) => {
    if (isDown) throw new Error("Redis is away");
    await memory.tell(...args);
  };
  const { options, warnings, pass } = setUp({ ...memory, tell });
  const teller = startPresence(options);
  await pass(20_000);
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toContain("Redis is away");
  isDown = false;
  await pass(5_000);
  expect(await memory.workers()).toHaveLength(1);
  isDown = true;
  await pass(20_000);
  expect(warnings).toHaveLength(2);
  await teller.stop();
});

test("a stop does not wait for a Redis that does not answer", async () => {
  const never = new Promise<never>(() => {});
  for (const change of [{ tell: () => never }, { leave: () => never }]) {
    const { options, pass } = setUp(change);
    const teller = startPresence(options);
    await pass(0);
    const stopping = teller.stop();
    await pass(1_000);
    await expect(stopping).resolves.toBeUndefined();
  }
});

test("while one telling waits for Redis, no other is sent", async () => {
  let told = 0;
  const tell = (): Promise<never> => {
    told += 1;
    return new Promise<never>(() => {});
  };
  const { options, pass } = setUp({ tell });
  startPresence(options);
  await pass(60_000);
  expect(told).toBe(1);
});

test("whoever waits until the fleet has heard of it waits for that, and for a second at most", async () => {
  const heard = Promise.withResolvers<void>();
  const { options, pass } = setUp({ tell: () => heard.promise });
  const teller = startPresence(options);
  const order: string[] = [];
  const first = teller.told().then(() => order.push("told"));
  await pass(500);
  order.push("heard");
  heard.resolve();
  await first;
  expect(order).toEqual(["heard", "told"]);
  await teller.stop();

  const { options: silent, pass: wait } = setUp({ tell: () => new Promise(() => {}) });
  const mute = startPresence(silent);
  const given = mute.told();
  await wait(1_000);
  await given;
});
