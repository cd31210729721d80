import { expect, test } from "vitest";
import { agesOf, mayGo, retentionOfAll, retentionSchema } from "../../src/core/retention.ts";
import { newRun } from "../contract/run-fixtures.ts";

const ended = newRun({ status: "failed", model: undefined, endedAt: 100 });

test("a run goes when it ended with that status before that time and owes nothing", () => {
  expect(mayGo(ended, "failed", 101)).toBe(true);
  expect(mayGo(ended, "failed", 100)).toBe(false);
  expect(mayGo(ended, "completed", 101)).toBe(false);
  expect(mayGo({ ...ended, endedAt: undefined }, "failed", 101)).toBe(false);
  expect(mayGo({ ...ended, place: { state: "leaving", round: 1, owedAt: 2 } }, "failed", 101)).toBe(false);
  expect(mayGo(newRun({ status: "running", endedAt: 1 }), "failed", 101)).toBe(false);
});

test("ages: none, and 0, keep runs for ever", () => {
  expect(agesOf({})).toEqual([]);
  expect(agesOf({ completed: 5_000, failed: 0, rejected: undefined })).toEqual([["completed", 5_000]]);
  expect(retentionOfAll(7_000)).toEqual({ completed: 7_000, failed: 7_000, cancelled: 7_000, rejected: 7_000 });
  expect(retentionSchema.parse({ failed: 0, completed: 1_000 })).toEqual({ failed: 0, completed: 1_000 });
  for (const wrong of [{ failed: 999 }, { failed: -1 }, { failed: 1.5 }, { running: 5_000 }, { failed: "1h" }]) {
    expect(retentionSchema.safeParse(wrong).success).toBe(false);
  }
});
