import { expect, test } from "vitest";
import {
  formatAge,
  formatBytes,
  formatCost,
  formatCount,
  formatDuration,
  formatNumber,
  formatShort,
  formatTime,
  toIso,
} from "../../../src/http/pages/format.ts";

test.each([
  [0, "0 ms"],
  [-5, "0 ms"],
  [999, "999 ms"],
  [1_000, "1.0 s"],
  [9_990, "9.9 s"],
  [59_999, "59 s"],
  [125_000, "2 min 05 s"],
  [4_320_000, "1 h 12 min"],
  [273_600_000, "3 d 04 h"],
])("a duration of %i ms is %s", (ms, text) => {
  expect(formatDuration(ms)).toBe(text);
});

test.each([
  [500, "now"],
  [12_345, "12 s"],
  [200_000, "3 min"],
  [7_300_000, "2 h"],
  [172_800_000, "2 d"],
])("an age of %i ms is %s", (ms, text) => {
  expect(formatAge(ms)).toBe(text);
});

test.each([
  [950, "950"],
  [1_200, "1.2k"],
  [9_949, "9.9k"],
  [48_400, "48k"],
  [999_499, "999k"],
  [999_500, "1.0M"],
  [12_000_000, "12M"],
])("%i in short is %s", (count, text) => {
  expect(formatShort(count)).toBe(text);
});

test("the script that keeps ages true writes them as the server does", async () => {
  const script = new URL("../../../src/http/pages/assets/ages.js", import.meta.url).href;
  const { forms } = (await import(script)) as { forms: Record<string, (at: number, now: number) => string> };
  const lengths = [0, 1, 12, 59].flatMap((n) => [
    n,
    n * 1_000,
    n * 60_000 + 7_000,
    n * 3_600_000 + 61_000,
    n * 86_400_000 + 3_700_000,
  ]);
  for (const ms of [999, 1_000, 9_999, 86_399_999, 172_800_000, ...lengths]) {
    expect(forms[""]?.(0, ms)).toBe(formatAge(ms));
    expect(forms.took?.(0, ms)).toBe(formatDuration(ms));
  }
});

test("numbers, money, sizes and times are written the same everywhere", () => {
  expect(formatCount(1_234_567)).toBe("1,234,567");
  expect(formatCost(0.0123)).toBe("$0.0123");
  expect(formatCost(1_234.5)).toBe("$1,234.50");
  expect(formatBytes(999)).toBe("999 bytes");
  expect(formatBytes(4_000_000_000)).toBe("4.0 GB");
  expect(formatNumber(1, "run")).toBe("1 run");
  expect(formatNumber(2, "worker was", "workers were")).toBe("2 workers were");
  expect(formatTime(0)).toBe("1970-01-01 00:00:00 UTC");
  expect(toIso(Number.NaN)).toBe("1970-01-01T00:00:00.000Z");
});
