// Catches: a sentence inside a sentence, the same line over and over, a step that is put off told as under way.
import { expect, test } from "vitest";
import { waitText } from "../../../src/http/pages/parts.ts";
import { renderTurn } from "../../../src/http/pages/run-turns.ts";
import { at, turn } from "./fixtures.ts";

test.each([
  ["an answer from a person", "Waits for an answer from a person"],
  ["run r1, which goes first in its session", "Waits for run r1, which goes first in its session"],
  ["No worker here knows it. Start one.", "No worker here knows it. Start one"],
])("what waits for %s says so in one sentence", (waitingFor, text) => {
  expect(waitText(waitingFor)).toBe(text);
});

test("a step that was held again and again is told once, and as waiting until its next attempt", () => {
  const reason = "No worker here knows it. Start one.";
  const held = { kind: "model", attempt: 1, outcome: "held", endedAt: at, reason } as const;
  const open = { kind: "model", attempt: 1, outcome: "open", reason, nextAt: at + 4_000 } as const;
  const view = { ...turn, input: [], marks: [], calls: [], steps: [held, held, held, open] };
  const [told = ""] = /<ul class="incidents">[^]*?<.ul>/.exec(String(renderTurn(view, { runId: "r", now: at }))) ?? [];
  const lines = told.split("<li>").slice(1);
  const words = lines.map((line) => line.replaceAll(/<[^>]*>/g, "").trim());
  expect(words).toEqual([
    "held model call: No worker here knows it. Start one; 3 times",
    "waits model call: No worker here knows it. Start one; next attempt in 4 s",
  ]);
});

test("what the model saw is offered where it is still known", () => {
  const known = { ...turn, request: turn.request };
  const { request: _, ...gone } = turn;
  const seen = (view: typeof turn): boolean =>
    String(renderTurn(view, { runId: "r", now: at })).includes("What the model saw");
  expect(turn.request).toBeDefined();
  expect([seen(known), seen(gone)]).toEqual([true, false]);
  expect(String(renderTurn(gone, { runId: "r", now: at }))).toContain("What was sent then cannot be told");
});
