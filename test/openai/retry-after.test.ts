import { expect, test } from "vitest";
import { readRetryAfter } from "../../src/openai/retry-after.ts";

const now = Date.UTC(2026, 0, 1);
const inSeconds = String(now / 1_000 + 4);

test.each<[string, Record<string, string>, string, number | undefined]>([
  ["the header goes before what the error says", { "retry-after": "2" }, "try again in 9s", 2_000],
  ["words, in ms", {}, "Rate limit reached. Please try again in 900ms.", 900],
  ["words, in seconds and minutes", {}, "Please try again in 1m2.5s. Visit us.", 62_500],
  ["words without a unit", {}, "retry after 3 seconds", 3_000],
  ["Google's detail", {}, '{"details":[{"retryDelay": "3s"}]}', 3_000],
  ["a used-up limit", { "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s" }, "", 360_000],
  [
    "a limit that is not used up",
    { "x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "6m0s" },
    "",
    undefined,
  ],
  ["the latest of several", { "x-ratelimit-reset-requests": "2s", "x-ratelimit-reset-tokens": "500ms" }, "", 2_000],
  ["seconds", { "ratelimit-reset": "7" }, "", 7_000],
  ["epoch seconds", { "x-ratelimit-reset": inSeconds }, "", 4_000],
  ["epoch ms", { "x-ratelimit-reset": String(now + 1_500) }, "", 1_500],
  ["a moment that has passed", { "x-ratelimit-reset": "2025-12-31T00:00:00Z" }, "", 0],
  ["nonsense", { "x-ratelimit-reset": "soon" }, "later", undefined],
])("%s", (...[, headers, text, waitMs]) => {
  expect(readRetryAfter(new Headers(headers), now, { status: 429, text })).toBe(waitMs);
});

test("only a limit of rates is looked for a reset", () => {
  expect(readRetryAfter(new Headers({ "x-ratelimit-reset": "7" }), now, { status: 500, text: "" })).toBeUndefined();
});
