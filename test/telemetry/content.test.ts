import { expect, test } from "vitest";
import {
  toArguments,
  toInputMessages,
  toInstructions,
  toOutputMessages,
  toResult,
} from "../../src/telemetry/content.ts";

test("every role and part has its form", () => {
  expect(
    toInputMessages([
      { role: "developer", content: "rules" },
      {
        role: "user",
        name: "ada",
        content: [
          { type: "text", text: "look" },
          { type: "image_url", image_url: { url: "data:image/png;base64,QUJD" } },
          { type: "image_url", image_url: { url: "https://pics.example/1.png" } },
          { type: "file", file: { file_id: "f1" } },
        ],
      },
      {
        role: "assistant",
        content: null,
        extra: { reasoning_content: "hm" },
        toolCalls: [{ callId: "call-1-1", id: "call_1", name: "look_up", arguments: "{oops" }],
      },
      { role: "tool", callId: "call-1-1", toolCallId: "call_1", name: "look_up", content: "fine", outcome: "ok" },
    ]),
  ).toEqual([
    { role: "system", parts: [{ type: "text", content: "rules" }] },
    {
      role: "user",
      name: "ada",
      parts: [
        { type: "text", content: "look" },
        { type: "image", description: "[image: image/png, 3 B]" },
        { type: "uri", modality: "image", uri: "https://pics.example/1.png" },
        { type: "file", description: "[file]" },
      ],
    },
    {
      role: "assistant",
      parts: [
        { type: "reasoning", content: "hm" },
        { type: "tool_call", id: "call_1", name: "look_up", arguments: "{oops" },
      ],
    },
    { role: "tool", parts: [{ type: "tool_call_response", id: "call_1", response: "fine" }] },
  ]);
});

test("an answer keeps its refusal and its finish reason", () => {
  expect(toOutputMessages({ content: null, refusal: "no", toolCalls: [] }, "stop")).toEqual([
    { role: "assistant", parts: [{ type: "refusal", content: "no" }], finish_reason: "stop" },
  ]);
});

test("results and arguments are values where they are JSON", () => {
  expect(toArguments('{"a":1}')).toEqual({ a: 1 });
  expect(toResult("plain")).toBe("plain");
  expect(
    toResult([
      { type: "text", text: "a" },
      { type: "text", text: "b" },
    ]),
  ).toBe("ab");
  expect(toResult([{ type: "image_url", image_url: "https://p.example/x" }])).toEqual([
    { type: "uri", modality: "image", uri: "https://p.example/x" },
  ]);
  expect(toInstructions("")).toEqual([]);
});
