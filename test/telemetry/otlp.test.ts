// Catches: telemetry that fails as it is shut down, and with that the stop of whoever it belongs to, or the sending of another part.
import { expect, test, vi } from "vitest";
import { flush } from "../../src/telemetry/otlp.ts";

const never = (): Promise<void> => new Promise(() => {});
const broken = (): never => {
  throw new Error("broken");
};

test.each([
  ["throws at once", broken],
  ["rejects", () => Promise.reject(new Error("away"))],
])("a part whose shutdown %s: the others send what they have before all is given up", async (_how, shutdown) => {
  const sending = Promise.withResolvers<void>();
  const giveUp = vi.fn<() => void>();
  const other = vi.fn<() => Promise<void>>(() => sending.promise);
  const flushing = flush([{ shutdown }, undefined, { shutdown: other }], giveUp);
  await new Promise((resolve) => setImmediate(resolve));
  expect(other).toHaveBeenCalledOnce();
  expect(giveUp).not.toHaveBeenCalled();
  sending.resolve();
  await flushing;
  expect(giveUp).toHaveBeenCalledOnce();
});

test("what never ends is given up after two seconds, and a giving up that throws fails nobody", async () => {
  vi.useFakeTimers();
  try {
    const flushing = flush([{ shutdown: never }], broken);
    await vi.advanceTimersByTimeAsync(2_000);
    await expect(flushing).resolves.toBeUndefined();
  } finally {
    vi.useRealTimers();
  }
});
