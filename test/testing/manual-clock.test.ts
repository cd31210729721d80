import { expect, test } from "vitest";
import { manualClock } from "../../src/testing/manual-clock.ts";

test("stands still until it is told to go on", () => {
  const clock = manualClock(1_000);
  expect(clock.now()).toBe(1_000);
  clock.advance(250);
  expect(clock.now()).toBe(1_250);
});

test("wakes sleepers in the order of their times, each at its time", async () => {
  const clock = manualClock(0);
  const woken: string[] = [];
  const sleeps = [30, 10, 20].map((ms) => clock.sleep(ms).then(() => void woken.push(`${ms}`)));
  expect(clock.sleeping()).toBe(3);
  expect(clock.nextAt()).toBe(10);
  clock.advance(20);
  await Promise.all(sleeps.slice(1));
  expect(woken).toEqual(["10", "20"]);
  expect(clock.nextAt()).toBe(30);
  clock.advance(10);
  await sleeps[0];
  expect(clock.sleeping()).toBe(0);
  expect(clock.nextAt()).toBeUndefined();
});

test("a sleep ends when its signal aborts, and one of no length at once", async () => {
  const clock = manualClock();
  const stop = new AbortController();
  const sleep = clock.sleep(1_000, stop.signal);
  stop.abort();
  await sleep;
  await clock.sleep(1_000, stop.signal);
  await clock.sleep(0);
  expect(clock.sleeping()).toBe(0);
});

test("tells when somebody sleeps", async () => {
  const clock = manualClock();
  const two = clock.whenSleeping(2);
  const first = clock.sleep(10);
  await clock.whenSleeping();
  const second = clock.sleep(20);
  await two;
  expect(clock.sleeping()).toBe(2);
  clock.advance(20);
  await Promise.all([first, second]);
});
