import { expect, test } from "vitest";
import { refusalForSize, refusesFromBytes } from "../../src/core/room.ts";

const mib = 1_048_576;

test("a store takes runs up to its share, and without a limit any", () => {
  expect(refusesFromBytes(100, 90)).toBe(90);
  expect(refusalForSize({ usedBytes: 89, maxBytes: 100 }, 90, "here")).toBeUndefined();
  expect(refusalForSize({ usedBytes: 5_000, maxBytes: 0 }, 90, "here")).toBeUndefined();
});

test("a refusal says how full it is and what to do", () => {
  const refusal = refusalForSize({ usedBytes: 95.5 * mib, maxBytes: 100 * mib }, 90, "localhost:6379");
  expect(refusal).toContain("localhost:6379 is nearly full: 95.5 MiB of its 100.0 MiB (maxmemory) are used, 96 %");
  expect(refusal).toContain("From 90 % on new runs are refused");
  expect(refusal).toMatch(/Raise maxmemory.*DROVER_RETENTION_MS/);
});
