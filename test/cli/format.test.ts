import { expect, test } from "vitest";
import { toEventLine } from "../../src/cli/format/event.ts";
import { toOpenCalls } from "../../src/cli/format/run.ts";
import { count, toBytes, toDuration, toOneLine, toPrintable } from "../../src/cli/format/text.ts";
import { toTranscript } from "../../src/cli/format/transcript.ts";
import { toJsonLine, toTable } from "../../src/cli/output.ts";
import type { Message } from "../../src/core/message.ts";
import { noUsage } from "../../src/core/run.ts";
import type { RunView } from "../../src/engine/run-view.ts";

const plain = (_mark: string, text: string): string => text;

test.each([
  [-5, "0 ms"],
  [999, "999 ms"],
  [3210, "3.2 s"],
  [59_000, "59 s"],
  [61_000, "1 min"],
  [7_200_000, "2 h"],
  [200_000_000, "2 d"],
])("%d ms is %s", (ms, text) => {
  expect(toDuration(ms)).toBe(text);
});

test.each([
  [0, "0 B"],
  [1023, "1023 B"],
  [1_572_864, "1.5 MiB"],
])("%d bytes are %s", (bytes, text) => {
  expect(toBytes(bytes)).toBe(text);
});

test("content cannot drive the terminal", () => {
  expect(toPrintable("a\u001b[2Jb\u0007c\u009bd\u007fe\nf\tg")).toBe("a[2Jbcde\nf\tg");
  expect(toOneLine("a\n  b\u001b]0;x", 20)).toBe("a b]0;x");
});

test("content cannot be shown in another order than it has", () => {
  expect(toOneLine("pay \u202e001\u202c to \u2066b\u2069\u200f", 40)).toBe("pay 001 to b");
});

test("nor can the name of a tool that a model made up", () => {
  const tool = "\u001b[2Jx\ny";
  const result: Message = {
    role: "tool",
    callId: "call-1-1",
    toolCallId: "x",
    name: tool,
    content: "",
    outcome: "failed",
  };
  expect(toTranscript([result], plain)).toBe("tool [2Jx y call-1-1 failed\n");
  const at = { id: "1-0", seq: 1, at: 0, turn: 1, tool, callId: "call-1-1" };
  expect(toEventLine({ ...at, type: "tool_started", attempt: 1 }, plain)).toBe("[1] [2Jx y call-1-1 started");
});

test("whoever decides on a call is told that its arguments go on", () => {
  const linesOf = (length: number): string[] => {
    const base = { callId: "call-1-1", tool: "pay", state: "approval", attempt: 1, effect: "write" } as const;
    const call = { ...base, arguments: `"${"x".repeat(length - 2)}"` };
    return toOpenCalls({ runId: "r", openCalls: [call] } as unknown as RunView, plain, "drover");
  };
  expect(linesOf(300).join()).not.toContain("not all is shown");
  expect(linesOf(301)).toContain("    not all is shown: `drover show r --json` has all 301 characters");
});

test("a long line is cut between characters, not inside one", () => {
  expect(toOneLine("😀😀😀😀", 3)).toBe("😀😀…");
});

test("one and many", () => {
  expect([count(1, "call"), count(0, "call"), count(2, "call")]).toEqual(["1 call", "0 calls", "2 calls"]);
});

test("a table is columns and blanks, without trailing blanks or borders", () => {
  expect(
    toTable(
      ["run", "status"],
      [
        ["a", "completed"],
        ["longer-id", "x"],
      ],
    ),
  ).toBe("RUN        STATUS\na          completed\nlonger-id  x");
});

test("a transcript shows speakers, calls, results and their outcomes", () => {
  const messages: Message[] = [
    { role: "user", content: "2*21?" },
    {
      role: "assistant",
      content: null,
      toolCalls: [{ callId: "call-1-1", id: "x", name: "calculator", arguments: '{"expression":"2*21"}' }],
    },
    { role: "tool", callId: "call-1-1", toolCallId: "x", name: "calculator", content: "42", outcome: "ok" },
    { role: "tool", callId: "call-1-2", toolCallId: "y", name: "pay", content: "no", outcome: "denied" },
    { role: "assistant", content: [{ type: "text", text: "It is 42." }, { type: "image_url" }] },
  ];
  expect(toTranscript(messages, plain)).toBe(
    [
      "user\n  2*21?",
      'assistant\n  → calculator {"expression":"2*21"} call-1-1',
      "tool calculator call-1-1 ok\n  42",
      "tool pay call-1-2 denied\n  no",
      "assistant\n  It is 42.\n  [image]",
    ].join("\n\n"),
  );
});

test("what stands between an answer and the end is told in a line", () => {
  const at = { id: "1-0", seq: 1, at: 0, turn: 2 };
  const error = { code: "x", message: "no database" };
  const lines = [
    toEventLine({ ...at, type: "answer_refused", why: "output", message: 3 }, plain),
    toEventLine({ ...at, type: "answer_refused", why: "verify", message: 3 }, plain),
    toEventLine({ ...at, type: "answer_verified" }, plain),
    toEventLine({ ...at, type: "verify_failed", attempt: 1, error, nextAt: 2_000 }, plain),
    toEventLine({ ...at, type: "window_shrunk", execution: "e", budgetTokens: 900, error }, plain),
    toEventLine({ ...at, type: "summarised", execution: "e", upTo: 7, text: "secret", usage: noUsage }, plain),
  ];
  expect(lines).toEqual([
    "[2] the answer does not fit the output, so the model is told",
    "[2] the answer did not pass its check, so the model is told",
    "[2] the answer passed its check",
    "[2] the check failed: no database; next attempt in 2.0 s",
    "[2] too long for the model; at most 900 tokens are sent from here on",
    "[2] the first 7 messages are sent as a summary from here on",
  ]);
});

test("a long result is cut and says how long it is", () => {
  const shown = toTranscript([{ role: "user", content: "x".repeat(5000) }], plain);
  expect(shown.length).toBeLessThan(2100);
  expect(shown).toContain("(5000 characters in all)");
});

test("JSON holds nothing that a terminal obeys, and says the same", () => {
  const value = { text: "a\u001b[2J\u009b31m\u202e\u007f\n\u{1F600}" };
  const line = toJsonLine(value);
  expect(JSON.parse(line)).toEqual(value);
  expect(line).toBe(String.raw`{"text":"a\u001b[2J\u009b31m\u202e\u007f\n😀"}`);
});
