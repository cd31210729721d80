// Would catch the result of a tool that may not run again, or an answer that was paid for, thrown away for a short outage.
import { expect, test } from "vitest";
import { DroverError } from "../../src/core/errors.ts";
import { NotQueued } from "../../src/engine/advance.ts";
import { withOutcomeInHand } from "../../src/engine/in-hand.ts";

const full = new DroverError("queue_unavailable", "its memory is full");

function makeScene(failures: unknown[], aborted?: "handed_back") {
  let now = 0;
  const waits: number[] = [];
  const clock = {
    now: () => now,
    sleep: async (ms: number): Promise<void> => {
      waits.push(ms);
      now += ms;
    },
  };
  const active = { aborted: () => aborted, signal: new AbortController().signal };
  const work = async (): Promise<string> => {
    const failure = failures.shift();
    if (failure !== undefined) throw failure;
    return "committed";
  };
  return { waits, attempt: () => withOutcomeInHand({ clock, ids: { random: () => 0 } }, active, work) };
}

test("trouble with Redis is waited out, longer each time", async () => {
  const { attempt, waits } = makeScene([full, full, full]);
  expect(await attempt()).toBe("committed");
  expect(waits).toEqual([100, 200, 400]);
});

test("not for ever", async () => {
  const { attempt, waits } = makeScene(Array.from({ length: 1_000 }, () => full));
  await expect(attempt()).rejects.toBe(full);
  expect(waits.reduce((sum, ms) => sum + ms, 0)).toBeLessThan(130_000);
  expect(Math.max(...waits)).toBe(5_000);
});

test.each([
  ["a step that is taken from it", full, "handed_back" as const],
  ["a bug", new Error("a bug"), undefined],
  ["a change that was made", new NotQueued(full), undefined],
])("%s is not waited for", async (_what, failure, aborted) => {
  const { attempt, waits } = makeScene([failure], aborted);
  await expect(attempt()).rejects.toBe(failure);
  expect(waits).toEqual([]);
});
