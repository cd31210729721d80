import { describe, expect, test } from "vitest";
import { inputSchema } from "../../src/core/message.ts";
import {
  dataOf,
  describePart,
  hostOf,
  isAttachment,
  isTextFile,
  type Part,
  problemsOfPart,
  shownText,
  toSize,
} from "../../src/core/parts.ts";

const png = { type: "image_url", image_url: { url: "data:image/png;base64,QUJD" } };
const file = (fields: unknown): Part => ({ type: "file", file: fields });

describe("a part is described without its data", () => {
  test.each<[string, Part]>([
    ["[image: image/png, 3 B]", png],
    ["[image: image/png, 640x480, 3 B]", { ...png, width: 640, height: 480 }],
    ["[image: image/png, 3 B]", { ...png, width: 640 }],
    [
      "[image: at pics.example:8080]",
      { type: "image_url", image_url: { url: "https://a:b@pics.example:8080/x?key=secret" } },
    ],
    ["[image: at pics.example]", { type: "image_url", image_url: "http://pics.example" }],
    ["[image]", { type: "image_url", image_url: { url: "data:image/png,raw" } }],
    ["[image: image/png, 3 B]", { type: "image_url", image_url: { url: " DATA:IMAGE/PNG ; BASE64,QUJD" } }],
    ["[image]", { type: "image_url" }],
    ["[image: text/plain, 2 B]", { type: "image_url", image_url: { url: "data:;base64,QUI=" } }],
    ["[audio: audio/wav, 1 B]", { type: "input_audio", input_audio: { data: "QQ==", format: "wav" } }],
    ["[audio: audio/unknown, 3 B]", { type: "input_audio", input_audio: { data: "QUJD" } }],
    ["[audio]", { type: "input_audio", input_audio: null }],
    [
      "[file: a b.pdf, application/pdf, 3 B]",
      file({ filename: "a\n b.pdf", file_data: "data:application/pdf;base64,QUJD" }),
    ],
    ["[file]", file({ file_id: "file-1" })],
    ["[video_url]", { type: "video_url", video_url: { url: "https://v.example/x" } }],
  ])("%s", (text, part) => {
    expect(describePart(part)).toBe(text);
  });

  test("a name or a type cannot fill the line or break it", () => {
    const long = "x".repeat(5_000);
    const part = file({ filename: long, file_data: `data:${long}[evil]\u001b;base64,QUJD` });
    expect(describePart(part)).toBe(`[file: ${"x".repeat(100)}, ${"x".repeat(100)}, 3 B]`);
    expect(describePart({ type: `[${long}` })).toBe(`[${"x".repeat(100)}]`);
  });

  test("many megabytes are measured, not read", () => {
    const url = `data:image/jpeg;base64,${"QUJD".repeat(3_000_000)}`;
    expect(describePart({ type: "image_url", image_url: { url } })).toBe("[image: image/jpeg, 9 MB]");
  });
});

test.each([
  [0, "0 B"],
  [999, "999 B"],
  [1_000, "1 KB"],
  [1_549, "1.5 KB"],
  [34_400, "34 KB"],
  [999_499, "999 KB"],
  [999_500, "1 MB"],
  [10_485_760, "10 MB"],
])("%d bytes are %s", (bytes, text) => {
  expect(toSize(bytes)).toBe(text);
});

test("contents as people see them", () => {
  expect(shownText(null)).toBe("");
  expect(shownText("a")).toBe("a");
  expect(shownText([{ type: "text", text: "look" }, png, { type: "text", text: "" }])).toBe(
    "look\n[image: image/png, 3 B]",
  );
  expect(shownText([{ type: "text" }])).toBe("[text]");
});

test("data, kinds and hosts", () => {
  expect(dataOf(png)).toEqual({ mediaType: "image/png", base64: "QUJD", bytes: 3 });
  expect(dataOf({ type: "text", text: "data:image/png;base64,QUJD" })).toBeUndefined();
  expect([png, file({}), { type: "text" }, { type: "refusal" }].map(isAttachment)).toEqual([true, true, false, false]);
  const types = ["text/markdown", "application/json", "application/ld+json", "image/svg+xml", "application/pdf"];
  expect(types.map((type) => isTextFile(file({ file_data: `data:${type};base64,QUJD` })))).toEqual([
    true,
    true,
    true,
    false,
    false,
  ]);
  expect(isTextFile(file({}))).toBe(false);
  expect(isTextFile(png)).toBe(false);
  expect(hostOf("ftp://x.example/")).toBeUndefined();
  expect(hostOf(undefined)).toBeUndefined();
});

describe("a part that cannot be meant is refused at the boundary", () => {
  test.each<[string, Part]>([
    ["text", { type: "text", text: "" }],
    ["a refusal", { type: "refusal", refusal: "no" }],
    ["an image", png],
    ["an address", { type: "image_url", image_url: { url: "https://pics.example/1.png", detail: "low" } }],
    ["audio", { type: "input_audio", input_audio: { data: "QUJD", format: "mp3" } }],
    ["a file", file({ filename: "a.pdf", file_data: "data:application/pdf;base64,QUJD" })],
    ["a file that the provider keeps", file({ file_id: "file-1" })],
    ["a type of a provider", { type: "video_url" }],
  ])("not %s", (_name, part) => {
    expect(problemsOfPart(part)).toEqual([]);
  });

  test.each<[string, Part]>([
    ["text", { type: "text" }],
    ["refusal", { type: "refusal", refusal: 1 }],
    ["image_url.url", { type: "image_url" }],
    ["image_url.url", { type: "image_url", image_url: { url: "/home/a.png" } }],
    ["image_url.url", { type: "image_url", image_url: { url: "data:image/png,x" } }],
    ["image_url.url", { type: "image_url", image_url: { url: "data:image/png;base64,no base64!" } }],
    ["image_url.url", { type: "image_url", image_url: { url: "data:text/plain;base64,QUJD" } }],
    ["input_audio.data,input_audio.format", { type: "input_audio" }],
    ["file.file_data", file({ filename: "a.pdf" })],
  ])("%s", (paths, part) => {
    expect(
      problemsOfPart(part)
        .map(({ path }) => path.join("."))
        .join(),
    ).toBe(paths);
    const { error } = inputSchema.safeParse([{ role: "user", content: [part] }]);
    expect(JSON.stringify(error?.issues)).toContain("must be");
  });
});
