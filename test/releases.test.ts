// Catches: processes and folders that are left because undoing something else failed before, and an error that hides the first.
import { expect, test, vi } from "vitest";
import { withReleases } from "../src/releases.ts";

const fail = (what: string) => (): never => {
  throw new Error(what);
};

test("everything is undone, the last first, whatever fails, and the first failure is told", async () => {
  const undone: string[] = [];
  const undo = (what: string) => (): void => void undone.push(what);
  const done = withReleases(async (later) => {
    later(undo("a"));
    later(() => Promise.reject(new Error("late")));
    later(undo("b"));
    later(fail("early"));
    later(undo("c"));
    return "done";
  });
  await expect(done).rejects.toThrow("early");
  expect(undone).toEqual(["c", "b", "a"]);
});

test("what was to be done tells why it failed, not what was undone after it", async () => {
  const failed = withReleases(async (later) => {
    later(fail("release"));
    throw new Error("work");
  });
  await expect(failed).rejects.toThrow("work");
  expect(await withReleases(async () => 7)).toBe(7);
});

test("one that never ends holds up the others for half a minute at most", async () => {
  vi.useFakeTimers();
  try {
    const undo = vi.fn<() => void>();
    const done = withReleases(async (later) => {
      later(undo);
      later(() => new Promise(() => {}));
    });
    const failed = done.catch((error: unknown) => String(error));
    await vi.advanceTimersByTimeAsync(30_000);
    expect(await failed).toMatch(/was not after 30000 ms/);
    expect(undo).toHaveBeenCalledOnce();
  } finally {
    vi.useRealTimers();
  }
});
