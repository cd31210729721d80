import { describe, expect, test } from "vitest";
import { DroverError, PermanentError, RetryableError, toError } from "../../src/core/errors.ts";

describe("errors", () => {
  test("carry a code, a cause and a name of their own", () => {
    const cause = new Error("below");
    const error = new DroverError("conflict", "taken", { cause });
    expect(error).toMatchObject({ name: "DroverError", code: "conflict", message: "taken", cause });
    expect(new RetryableError("busy", { delayMs: 5 })).toMatchObject({ name: "RetryableError", delayMs: 5 });
    expect(new RetryableError("busy").delayMs).toBeUndefined();
    expect(new PermanentError("no")).toMatchObject({ name: "PermanentError", message: "no" });
  });

  test("whatever is thrown becomes an error", () => {
    const cyclic: { self?: unknown } = {};
    cyclic.self = cyclic;
    const error = new Error("as it is");
    expect(toError(error)).toBe(error);
    expect(toError("text").message).toBe("text");
    expect(toError({ a: 1 }).message).toBe('a non-error was thrown: {"a":1}');
    expect(toError(undefined).message).toBe("a non-error was thrown: undefined");
    expect(toError(cyclic).message).toBe("a non-error was thrown: object");
  });
});
