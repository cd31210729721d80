import { describe, expect, test } from "vitest";
import { backoffMs, maxDelayMs, nextAttemptAt } from "../../src/core/retry.ts";

const policy = { attempts: 3, delayMs: 100 };

describe("the next attempt", () => {
  test.each([
    [1, 0, undefined, 1_100],
    [2, 0, undefined, 1_200],
    [2, 0.5, undefined, 1_150],
    [1, 0, 5_000, 6_000],
    [1, 0, 10, 1_100],
  ])("after attempt %s with jitter %s and Retry-After %s is at %s", (attempt, jitter, retryAfterMs, expected) => {
    expect(nextAttemptAt(policy, { attempt, jitter, retryAfterMs, at: 1_000 })).toBe(expected);
  });

  test("there is none when the policy's attempts are used up, whatever Retry-After says", () => {
    expect(nextAttemptAt(policy, { attempt: 3, jitter: 0, at: 1_000, retryAfterMs: 1 })).toBeNull();
  });

  test("waits double up to a bound and never become negative or endless", () => {
    expect([1, 2, 3, 4].map((attempt) => backoffMs(100, attempt, 0))).toEqual([100, 200, 400, 800]);
    expect(backoffMs(100, 10_000, 0)).toBe(maxDelayMs);
    expect(backoffMs(100, 1, 0.999)).toBe(50);
  });
});
