// Catches: a wait with a limit that waits on, that loses what came in time, or that leaves a timer or a listener behind.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { atMost } from "../src/at-most.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const never = new Promise<never>(() => {});

test("gives what came in time, and leaves no timer behind", async () => {
  expect(await atMost(1_000, Promise.resolve("x"))).toEqual({ value: "x" });
  expect(await atMost(1_000, Promise.resolve(undefined))).toEqual({ value: undefined });
  await expect(atMost(1_000, Promise.reject(new Error("bad")))).rejects.toThrow("bad");
  expect(vi.getTimerCount()).toBe(0);
});

test("waits until the time is over, and not longer", async () => {
  let ended = false;
  const waiting = atMost(1_000, never).finally(() => {
    ended = true;
  });
  await vi.advanceTimersByTimeAsync(999);
  expect(ended).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  expect(ended).toBe(true);
  expect(await waiting).toBeUndefined();
});

test("bears what fails when the time is over", async () => {
  const { promise, reject } = Promise.withResolvers<void>();
  const waiting = atMost(1_000, promise);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(await waiting).toBeUndefined();
  reject(new Error("too late"));
  await vi.advanceTimersByTimeAsync(1);
});

test("ends with its signal, also one that had aborted before, and listens no longer", async () => {
  const stopping = new AbortController();
  const { signal } = stopping;
  const add = vi.spyOn(signal, "addEventListener");
  const remove = vi.spyOn(signal, "removeEventListener");
  const waiting = atMost(60_000, never, signal);
  stopping.abort();
  expect(await waiting).toBeUndefined();
  const again = atMost(60_000, never, signal);
  await vi.advanceTimersByTimeAsync(0);
  expect(await again).toBeUndefined();
  expect(remove.mock.calls.map(([, listener]) => listener)).toEqual(add.mock.calls.map(([, listener]) => listener));
  expect(vi.getTimerCount()).toBe(0);
});
