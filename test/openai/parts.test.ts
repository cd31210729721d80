import { describe, expect, test } from "vitest";
import type { ContentPart, Message } from "../../src/core/message.ts";
import { maxInlinedBytes } from "../../src/core/parts.ts";
import { toRequestBody } from "../../src/openai/request.ts";
import { estimateUsage } from "../../src/openai/usage.ts";
import { contractRequest } from "../contract/model-client.contract.ts";

type Wire = { role: string; content: unknown; [field: string]: unknown };

function sent(messages: Message[], quirks: string[] = []): Wire[] {
  const request = contractRequest(1, { instructions: "", tools: [], messages });
  const body = toRequestBody(request, { model: "m", stream: false, quirks: new Set(quirks) });
  // The same request gives the same body, or no server's cache can hit.
  expect(toRequestBody(request, { model: "m", stream: false, quirks: new Set(quirks) })).toEqual(body);
  return body.messages as Wire[];
}

const text = (words: string): ContentPart => ({ type: "text", text: words });
const onWire: ContentPart = { type: "image_url", image_url: { url: "data:image/png;base64,QUJD", detail: "low" } };
const image: ContentPart = { ...onWire, width: 640, height: 480 };
const remote: ContentPart = { type: "image_url", image_url: { url: "https://pics.example/cat.png" } };
const audio: ContentPart = { type: "input_audio", input_audio: { data: "QUJD", format: "wav" } };
const pdf: ContentPart = {
  type: "file",
  file: { filename: "r.pdf", file_data: "data:application/pdf;base64,QUJD" },
};
const toFile = (filename: string, type: string, words: string): ContentPart => ({
  type: "file",
  file: { filename, file_data: `data:${type};base64,${Buffer.from(words).toString("base64")}` },
});

describe("input", () => {
  const look = (...parts: ContentPart[]): Message[] => [{ role: "user", content: parts }];
  const contentOf = (parts: ContentPart[], ...quirks: string[]): unknown => sent(look(...parts), quirks)[0]?.content;

  test("parts go as they are, without what is only ours", () => {
    expect(contentOf([text("What is this?"), image, audio, pdf, remote])).toEqual([
      text("What is this?"),
      onWire,
      audio,
      pdf,
      remote,
    ]);
  });

  test.each<[string, ContentPart, string]>([
    ["part.image_url", image, "[image: image/png, 640x480, 3 B: you cannot see it]"],
    ["part.image_url", remote, "[image: https://pics.example/cat.png: you cannot see it]"],
    ["part.input_audio", audio, "[audio: audio/wav, 3 B: you cannot hear it]"],
    ["part.file", pdf, "[file: r.pdf, application/pdf, 3 B: you cannot read it]"],
    ["part.file", { type: "file", file: { file_id: "f" } }, "[file: you cannot read it]"],
  ])("%s: described, and one text", (quirk, part, description) => {
    expect(contentOf([text("Here:"), part], quirk)).toBe(`Here:\n\n${description}`);
    expect(contentOf([text("Here:"), part], "content.parts")).toBe(`Here:\n\n${description}`);
  });

  test("data is never told as an address, however it is written", () => {
    for (const url of ["DATA:image/png;base64,QUJD", "data:image/png,QUJD", "blob:QUJD"]) {
      const told = JSON.stringify(contentOf([text("a"), { type: "image_url", image_url: { url } }], "part.image_url"));
      expect(told).toContain("you cannot see it");
      expect(told).not.toContain("QUJD");
    }
  });

  test("only what was refused is described", () => {
    expect(contentOf([image, pdf], "part.file")).toEqual([
      onWire,
      text("[file: r.pdf, application/pdf, 3 B: you cannot read it]"),
    ]);
  });

  test("text keeps its parts and what a provider added until a server wants one string", () => {
    const cached = { ...text("b"), cache_control: { type: "ephemeral" } };
    expect(contentOf([text("a"), cached])).toEqual([text("a"), cached]);
    expect(contentOf([cached, image], "part.image_url")).toEqual([cached, expect.objectContaining({ type: "text" })]);
    expect(contentOf([text("a"), cached], "content.parts")).toBe("a\n\nb");
  });

  test("a provider's own parts go along, and are left out where they are refused", () => {
    const own: ContentPart = { type: "thinking", thinking: "hm" };
    const answer: Message[] = [{ role: "assistant", content: [own, text("yes"), { type: "refusal", refusal: "no" }] }];
    expect(sent(answer)[0]?.content).toEqual([own, text("yes"), { type: "refusal", refusal: "no" }]);
    expect(sent(answer, ["content.parts"])[0]?.content).toBe("yes\n\nno");
    expect(sent([{ role: "assistant", content: [own] }], ["content.parts"])).toEqual([]);
    expect(sent([{ role: "system", content: [text("a"), image] }], ["content.parts"])[0]?.content).toContain(
      "a\n\n[image",
    );
  });

  test("files of text are text for every model, fenced so that they cannot break out", () => {
    expect(contentOf([text("Sum it:"), toFile("t.csv", "text/csv", "a,b\n1,2")])).toBe(
      "Sum it:\n\nFile t.csv (text/csv):\n```\na,b\n1,2\n```",
    );
    expect(contentOf([toFile("x.md", "text/markdown", "````js\n````")])).toBe(
      "File x.md (text/markdown):\n`````\n````js\n````\n`````",
    );
    const nameless: ContentPart = { type: "file", file: { file_data: "data:application/json;base64,e30=" } };
    expect(contentOf([nameless, image])).toEqual([
      text("File without a name (application/json):\n```\n{}\n```"),
      onWire,
    ]);
  });

  test("a large file of text is cut between characters", () => {
    const content = contentOf([toFile("big.txt", "text/plain", `x${"é".repeat(maxInlinedBytes)}`)]) as string;
    expect(content).toContain(`xéé`);
    expect(content).not.toContain("\uFFFD");
    expect(content).toContain(`[cut: the first ${maxInlinedBytes} of ${2 * maxInlinedBytes + 1} bytes are shown]`);
    expect(content.length).toBeLessThan(maxInlinedBytes);
  });
});

describe("results of tools", () => {
  const asks = (...names: string[]): Message => ({
    role: "assistant",
    content: null,
    toolCalls: names.map((name, index) => ({ callId: `call-1-${index + 1}`, id: `c${index}`, name, arguments: "{}" })),
  });
  const result = (index: number, name: string, content: string | ContentPart[]): Message => ({
    role: "tool",
    callId: `call-1-${index + 1}`,
    toolCallId: `c${index}`,
    name,
    content,
    outcome: "ok",
  });
  const chart = [
    asks("get_chart", "look", "get_chart"),
    result(0, "get_chart", [text("Sales:"), image]),
    result(1, "look", "nothing"),
    result(2, "get_chart", [image, audio, image]),
  ];
  const facts = "image/png, 640x480, 3 B";
  const shown = [
    text("[image 1 of call get_chart]"),
    onWire,
    text("[image 1 of call get_chart #2]"),
    onWire,
    text("[audio 1 of call get_chart #2]"),
    audio,
    text("[image 2 of call get_chart #2]"),
    onWire,
  ];
  const toolMessages = [
    { role: "tool", tool_call_id: "c0", content: `Sales:\n\n[image 1 of call get_chart: ${facts}: shown below]` },
    { role: "tool", tool_call_id: "c1", content: "nothing" },
    {
      role: "tool",
      tool_call_id: "c2",
      content: `[image 1 of call get_chart #2: ${facts}: shown below]\n\n[audio 1 of call get_chart #2: audio/wav, 3 B: shown below]\n\n[image 2 of call get_chart #2: ${facts}: shown below]`,
    },
  ];

  test("a tool message names what one user message after the last result shows", () => {
    expect(sent(chart).slice(1)).toEqual([...toolMessages, { role: "user", content: shown }]);
  });

  test("it stays there on later turns, so that a prompt cache hits", () => {
    const later: Message[] = [...chart, { role: "assistant", content: "Up." }, { role: "user", content: "And now?" }];
    expect(sent(later).slice(0, 5)).toEqual(sent(chart));
    expect(sent(later).slice(5)).toEqual([
      { role: "assistant", content: "Up." },
      { role: "user", content: "And now?" },
    ]);
  });

  test("input that comes right after the results is part of that message", () => {
    const [, , , , last, ...more] = sent([...chart, { role: "user", content: "Hurry.", name: "ann" }]);
    expect(last).toEqual({ role: "user", name: "ann", content: [...shown, text("Hurry.")] });
    expect(more).toEqual([]);
    expect(sent([...chart, { role: "user", content: [pdf] }]).at(-1)?.content).toEqual([...shown, pdf]);
  });

  test("results.shown: where roles alternate, the assistant speaks in between", () => {
    const roles = sent(chart, ["results.shown"]).map(({ role }) => role);
    expect(roles).toEqual(["assistant", "tool", "tool", "tool", "assistant", "user"]);
    expect(sent(chart, ["results.shown"]).at(-1)?.content).toEqual(shown);
  });

  test.each([["results.shown", "results.bridged"], ["part.image_url", "part.input_audio"], ["content.parts"]])(
    "%s: only descriptions are sent",
    (...quirks) => {
      const messages = sent(chart, quirks);
      expect(messages.map(({ role }) => role)).toEqual(["assistant", "tool", "tool", "tool"]);
      expect(messages[1]?.content).toBe(`Sales:\n\n[image 1 of call get_chart: ${facts}: you cannot see it]`);
      expect(messages[3]?.content).toContain("[audio 1 of call get_chart #2: audio/wav, 3 B: you cannot hear it]");
      expect(JSON.stringify(messages)).not.toContain("QUJD");
    },
  );

  test("text parts stay as they are; files of text are shown in the tool message", () => {
    const cached = { ...text("b"), cache_control: {} };
    const content = [text("a"), cached];
    expect(sent([asks("look"), result(0, "look", content)])[1]?.content).toEqual(content);
    expect(sent([asks("look"), result(0, "look", [cached, image])])[1]?.content).toHaveLength(2);
    expect(sent([asks("look"), result(0, "look", [toFile("a.txt", "text/plain", "hi")])]).slice(1)).toEqual([
      { role: "tool", tool_call_id: "c0", content: "[file 1 of call look]\nFile a.txt (text/plain):\n```\nhi\n```" },
    ]);
  });
});

test("data is not counted as text where a server tells no usage", () => {
  const megabyte = { type: "image_url", image_url: { url: `data:image/png;base64,${"QUJD".repeat(250_000)}` } };
  const tokensOf = (content: ContentPart[]): number =>
    estimateUsage({ instructions: "", messages: [{ role: "user", content }], tools: [] }, "").inputTokens;
  expect(tokensOf([text("x".repeat(400)), megabyte])).toBe(1_100);
  expect(tokensOf([toFile("a.txt", "text/plain", "x".repeat(400))])).toBe(100);
});
