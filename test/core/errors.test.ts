import { describe, expect, test } from "vitest";
import { DamagedRecord, DroverError, PermanentError, RetryableError, toError } from "../../src/core/errors.ts";

describe("errors", () => {
  test("carry a code, a cause and a name of their own", () => {
    const cause = new Error("below");
    const error = new DroverError("conflict", "taken", { cause });
    expect(error).toMatchObject({ name: "DroverError", code: "conflict", message: "taken", cause });
    expect(new RetryableError("busy", { delayMs: 5 })).toMatchObject({ name: "RetryableError", delayMs: 5 });
    expect(new RetryableError("busy").delayMs).toBeUndefined();
    expect(new PermanentError("no")).toMatchObject({ name: "PermanentError", message: "no" });
  });

  test("of a damaged record say what to do with the run that it is of", () => {
    const text = (where: string): string => new DamagedRecord(where, "rev is gone").message;
    const begin = (where: string): string =>
      `The stored record of ${where} is damaged (rev is gone). Restore it from a backup, or `;
    expect(text("run a-1")).toBe(`${begin("run a-1")}delete the run: drover delete a-1`);
    expect(text("call:x of run a-1")).toBe(`${begin("call:x of run a-1")}delete the run: drover delete a-1`);
    expect(text("transcript of a-1")).toBe(`${begin("transcript of a-1")}delete the run: drover delete a-1`);
    expect(text("agent definition h")).toBe(`${begin("agent definition h")}delete it`);
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
