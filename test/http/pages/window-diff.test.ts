import { expect, test } from "vitest";
import type { Message } from "../../../src/core/message.ts";
import { diffWindow } from "../../../src/http/pages/window-diff.ts";

const user = (content: string): Message => ({ role: "user", content });
const system = (content: string): Message => ({ role: "system", content });
const asks = (callId: string): Message => ({
  role: "assistant",
  content: null,
  toolCalls: [{ callId, id: callId, name: "look", arguments: "{}" }],
});
const told = (callId: string, content: string): Message => ({
  role: "tool",
  callId,
  toolCallId: callId,
  name: "look",
  content,
  outcome: "ok",
});

const transcript = [
  user("Find out what changed."),
  asks("call-1-1"),
  told("call-1-1", "one"),
  asks("call-2-1"),
  told("call-2-1", "two and a lot more"),
];

test("a transcript that was sent as it is has no marks", () => {
  const rows = diffWindow({ messages: transcript, leftOut: [] }, transcript);
  expect(rows.map(({ kind }) => kind)).toEqual(["same", "same", "same", "same", "same"]);
});

test("shows in its place what was left out, cut and added", () => {
  const messages = [
    system("Summary of the earlier part of this conversation"),
    user("Find out what changed."),
    asks("call-2-1"),
    told("call-2-1", "two\n[cut here; 18 characters in all]\nReminder of the task: Find out"),
  ];
  const rows = diffWindow({ messages, leftOut: [[1, 3]] }, transcript);
  expect(rows).toEqual([
    { kind: "added", sent: 0, message: messages[0] },
    { kind: "same", index: 0, sent: 1, message: messages[1] },
    { kind: "left_out", from: 1, to: 3 },
    { kind: "same", index: 3, sent: 2, message: messages[2] },
    { kind: "changed", index: 4, sent: 3, message: messages[3], was: transcript[4] },
  ]);
});

test("what was left out at the end is told too, and nothing of what was sent is lost", () => {
  const rows = diffWindow({ messages: [user("Find out what changed.")], leftOut: [[1, 5]] }, transcript);
  expect(rows.map(({ kind }) => kind)).toEqual(["same", "left_out"]);
});

test("system text that rendering moved to the front is found where it stood", () => {
  const kept = [user("a question of some length"), system("be brief"), user("another one of some length")];
  const messages = [kept[1], kept[0], kept[2]] as Message[];
  const rows = diffWindow({ messages, leftOut: [] }, kept);
  expect(rows.map((row) => (row.kind === "same" ? row.index : row.kind))).toEqual([1, 0, 2]);
});

test("messages that rendering joined into one are one that changed", () => {
  const kept = [user("first of two things"), user("second of two things")];
  const rows = diffWindow({ messages: [user("first of two things\n\nsecond of two things")], leftOut: [] }, kept);
  expect(rows.map(({ kind }) => kind)).toEqual(["changed"]);
});
