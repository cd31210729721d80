// Catches: places that are missed between pieces, told twice, or not told of.
import fc from "fast-check";
import { expect, test } from "vitest";
import { findPlaces, type Place, placesText } from "../../src/core/result-search.ts";

test("tells places with what is around them on one line", () => {
  const text = `${"a".repeat(100)}\n needle\t${"🎉".repeat(100)}`;
  expect(findPlaces({ text, from: 1_000 }, "needle", 999)).toEqual([
    { at: 1_102, line: `1102: ${"a".repeat(58)} needle ${"🎉".repeat(29)}\uFFFD` },
  ]);
});

test("finds every place once, wherever the pieces part", () => {
  const text = fc.string({ unit: fc.constantFrom("a", "b"), maxLength: 80 });
  const words = fc.string({ unit: fc.constantFrom("a", "b"), minLength: 1, maxLength: 3 });
  fc.assert(
    fc.property(text, words, fc.integer({ min: 1, max: 20 }), (whole, sought, length) => {
      const found = new Set<number>();
      for (let from = 0; from < whole.length; from += length) {
        const piece = { text: whole.slice(from, from + length + sought.length - 1), from };
        for (const { at } of findPlaces(piece, sought, length)) {
          expect(found.has(at)).toBe(false);
          found.add(at);
          expect(whole.startsWith(sought, at)).toBe(true);
        }
      }
      for (const { at } of findPlaces({ text: whole, from: 0 }, sought, whole.length)) {
        // In a run of the same the places may be counted from another one, never none.
        expect([...found].some((other) => Math.abs(other - at) < sought.length)).toBe(true);
      }
    }),
  );
});

const places: Place[] = [1, 5, 9, 20].map((at) => ({ at, line: `${at}: x` }));

test.each([
  [true, 99, '[4 of "x", each after its character; these are all]\n1: x\n5: x\n9: x\n20: x'],
  [false, 99, '[4 of "x", each after its character; to search on use "from": 21]\n1: x\n5: x\n9: x\n20: x'],
  [true, 3, '[2 of "x", each after its character; to search on use "from": 9]\n1: x\n5: x'],
  [true, 0, '[1 of "x", each after its character; to search on use "from": 5]\n1: x'],
])("tells of as many places as fit, and how to go on", (isAll, lines, text) => {
  const fits = (given: string): boolean => given.split("\n").length <= lines;
  expect(placesText({ places, isAll, words: "x", chars: 99 }, fits)).toBe(text);
});

test("says that there is none", () => {
  expect(placesText({ places: [], isAll: true, words: "x", chars: 99 }, () => true)).toBe(
    '[there is no "x" from there on in the 99 characters]',
  );
});
