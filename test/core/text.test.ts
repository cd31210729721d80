// Catches: half of a character at the end of a text, which servers and stores refuse.
import { expect, test } from "vitest";
import { wholeEnd } from "../../src/core/text.ts";

test.each([
  ["a🎉b", 0, 0],
  ["a🎉b", 1, 1],
  ["a🎉b", 2, 1],
  ["a🎉b", 3, 3],
  ["a🎉", 3, 3],
  ["a\ud83c", 2, 2],
  ["abc", 9, 9],
])("%j may end at %i: %i", (text, end, whole) => expect(wholeEnd(text, end)).toBe(whole));
