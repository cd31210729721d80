// Catches: a result that is more than there is room for, or that is cut without a word.
import { expect, test } from "vitest";
import { contentBytes } from "../../src/core/bytes.ts";
import { fitToBytes, fitToRun } from "../../src/core/fit-bytes.ts";
import type { ContentPart, FullResult } from "../../src/core/message.ts";

const big = "x".repeat(5_000);

test("text and parts of a result are fitted to the room there is", () => {
  expect(fitToBytes("short", 100)).toBe("short");
  expect(fitToBytes("é".repeat(20), 45)).toBe("é".repeat(20));
  const cut = String(fitToBytes("😀".repeat(1_000), 1_000));
  expect(Buffer.byteLength(cut)).toBeLessThan(1_200);
  expect(cut).toMatch(/^(?:😀)+\n\[the rest of this result, \d+ characters, is too large to be kept/u);
  const image: ContentPart = { type: "image_url", image_url: { url: `data:image/png;base64,${"A".repeat(3_000)}` } };
  const text: ContentPart = { type: "text", text: "seen" };
  expect(fitToBytes([text, image], 10_000)).toEqual([text, image]);
  expect(fitToBytes([text, image], 1_000)).toEqual([
    text,
    { type: "text", text: expect.stringContaining("1 part(s) of this result") },
  ]);
  expect(fitToBytes([{ type: "text", text: big }, image], 1_000)).toMatch(/^x+\n\[the rest of this result/);
  // Also where there is hardly room to say so, and whatever kind of text it is.
  expect(fitToBytes([text, image], 60)).toMatch(/^seen\n\[1 part\(s\) of this result, images or files, are too large/);
  const refused: ContentPart = { type: "refusal", refusal: "no, ".repeat(100) };
  expect(fitToBytes([refused], 40)).toMatch(/^no, .*\n\[the rest of this result, \d+ characters/s);
});

test("no character is cut in half", () => {
  for (let room = 40; room < 60; room += 1)
    expect(String(fitToBytes("😀".repeat(100), room)).isWellFormed()).toBe(true);
});

const full: FullResult = {
  name: "call-1-1",
  runId: "r",
  ref: "call-1-1.a",
  chars: 9_000,
  bytes: 9_000,
  head: 30,
  tail: 8,
};
const shown = `${"h".repeat(30)}\n[cut: to read on call read_result]\ntail end`;

test("a result stays as it is while its run may hold it, and where nobody says what that is", () => {
  const result = { content: shown, full };
  expect(fitToRun({ bytes: 90_000 }, result, undefined)).toEqual(result);
  expect(fitToRun({ bytes: 1_000 }, result, 10_000)).toEqual(result);
  expect(fitToRun({}, { content: big }, 5_000)).toEqual({ content: big });
  expect(fitToRun({ bytes: 5_000 }, { content: "short" }, 1_024)).toEqual({ content: "short" });
});

test("a result that is over that by now is cut, and what had been cut out of it goes", () => {
  const { content } = fitToRun({ bytes: 8_000 }, { content: big }, 10_000);
  expect(content).toMatch(/^x{1800,2000}\n\[the rest of this result, \d+ characters, is too large to be kept/);
  expect(contentBytes(fitToRun({ bytes: 12_000 }, { content: big }, 10_000).content)).toBeLessThan(200);
  const cut = fitToRun({ bytes: 8_000 }, { content: shown, full }, 10_000);
  expect(cut).toEqual({
    content: `${"h".repeat(30)}\n[the rest of this result, 8970 characters, is too large to be kept and is left out here]`,
  });
});

test("images beside a text that is cut count, and the model reads that they are gone too", () => {
  const image: ContentPart = { type: "image_url", image_url: { url: `data:image/png;base64,${"A".repeat(8_000)}` } };
  const result = { content: [{ type: "text" as const, text: shown }, image], full };
  expect(fitToRun({ bytes: 8_000 }, result, 26_000)).toEqual(result);
  expect(fitToRun({ bytes: 8_000 }, result, 20_000).content).toMatch(
    /^h{30}\n\[the rest of this result, 8970 .*\n\[1 part\(s\) of this result, images or files, .* left out here\]$/,
  );
});
