import { describe, expect, test } from "vitest";
import {
  badArgumentsMessage,
  badJsonMessage,
  reasonOf,
  shorten,
  threwMessage,
  timeoutMessage,
  unknownToolMessage,
} from "../../src/tools/messages.ts";

// Pins: a change here changes what every model reads. Deliberate?
describe("the five messages", () => {
  test("unknown tool", () => {
    expect(unknownToolMessage("fly", ["walk", "swim"])).toBe(
      'There is no tool named "fly". Nothing was run. Available tools: walk, swim. ' +
        "Call one of them by its exact name, or answer without one.",
    );
    expect(unknownToolMessage("fly", [])).toBe(
      'There is no tool named "fly". Nothing was run. No tools are available: answer without one.',
    );
  });

  test("bad JSON", () => {
    const schema = { type: "object", properties: { city: {}, days: {} }, required: ["city"] };
    expect(badJsonMessage("get_weather", '{"city": Os', schema)).toBe(
      'The arguments of "get_weather" are not a JSON object. Nothing was run. Received: {"city": Os\n' +
        "Expected one complete JSON object with city, days (optional). Send the call again with valid JSON.",
    );
    expect(badJsonMessage("ping", " ", { type: "object" })).toContain("Received: nothing\nExpected one complete JSON");
  });

  test("bad arguments", () => {
    const issues = [
      { path: "city", expected: "string", received: "nothing" },
      { path: "", expected: "object", received: "null" },
    ];
    expect(badArgumentsMessage("get_weather", issues)).toBe(
      'The arguments of "get_weather" do not fit. Nothing was run.\n' +
        "- city: expected string, received nothing\n" +
        "- the arguments as a whole: expected object, received null\n" +
        "Send the call again, corrected.",
    );
  });

  test("thrown error", () => {
    expect(threwMessage("get_weather", "no such city")).toBe(
      '"get_weather" failed: no such city\n' +
        "If the arguments are the cause, send the call again with others; if not, go on without it.",
    );
  });

  test("timeout", () => {
    expect(timeoutMessage("get_weather", 1_500)).toBe(
      '"get_weather" did not finish within 1.5 s and was stopped; it has no result. ' +
        "Ask it for less at a time, or go on without it.",
    );
  });

  test("all are short, whatever they are about", () => {
    const long = "\uD83D\uDE00".repeat(100_000);
    const names = Array.from({ length: 1_000 }, (_, index) => `tool-${index}`);
    const issues = Array.from({ length: 1_000 }, () => ({ path: long, expected: long, received: long }));
    const messages = [
      unknownToolMessage(long, names),
      badJsonMessage("t", long, { type: "object" }),
      badArgumentsMessage("t", issues),
      threwMessage("t", long),
    ];
    for (const message of messages) {
      expect(message.length).toBeLessThan(16_000);
      expect(message.isWellFormed()).toBe(true);
    }
    expect(messages[0]).toContain("and 950 more");
    expect(messages[2]).toContain("and 980 more");
  });
});

test("shorten cuts between characters", () => {
  expect(shorten("ab\u{1F600}", 3)).toBe("ab…");
  expect(shorten("ab\u{1F600}", 4)).toBe("ab\u{1F600}");
  expect(shorten("a\0\uD83D", 9)).toBe("a\uFFFD\uFFFD");
});

describe("what a model may read of an error", () => {
  const hostile = new Proxy(new Error("x"), {
    get: () => {
      throw new Error("trap");
    },
  });
  test.each([
    ["its message", new Error("no such city"), "no such city"],
    ["its name where there is no message", new TypeError(""), "TypeError"],
    ["a text", "plain", "plain"],
    ["no object", { secret: "s3cret" }, "it threw something that is no error"],
    ["undefined", undefined, "it threw something that is no error"],
    ["a system code", Object.assign(new Error("failed"), { code: "EACCES" }), "failed (EACCES)"],
    [
      "the code of its cause, not its text",
      new Error("fetch failed", { cause: Object.assign(new Error("token=abc"), { code: "ECONNREFUSED" }) }),
      "fetch failed (ECONNREFUSED)",
    ],
    ["nothing of an error that cannot be read", hostile, "it threw something that cannot be read"],
  ])("%s", (_name, thrown, expected) => {
    expect(reasonOf(thrown)).toBe(expected);
  });

  test("at most 2,000 characters, and no stack", () => {
    const reason = reasonOf(new Error("x".repeat(10_000)));
    expect(reason).toBe(`${"x".repeat(2_000)}…`);
    expect(reasonOf(new Error("short"))).not.toContain(" at ");
  });
});
