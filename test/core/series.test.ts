// Catches: a list of places that comes back as another one, or that is not written in few words.
import fc from "fast-check";
import { expect, test } from "vitest";
import { packSeries, unpackSeries } from "../../src/core/series.ts";

test.each([
  [[], []],
  [[4], [4]],
  [
    [4, 7],
    [4, 7],
  ],
  [[6, 12, 18], [[6, 6, 3]]],
  [
    [2, 6, 12, 18, 24, 31],
    [2, [6, 6, 4], 31],
  ],
])("%j is kept as %j", (numbers, packed) => {
  expect(packSeries(numbers)).toEqual(packed);
});

test("whatever is packed comes back as it was", () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat(60)), (list) => {
      const numbers = list.sort((a, b) => a - b);
      expect(unpackSeries(packSeries(numbers))).toEqual(numbers);
    }),
  );
});

test("records of older versions are read", () => {
  expect(unpackSeries([3, 9, 15])).toEqual([3, 9, 15]);
});
