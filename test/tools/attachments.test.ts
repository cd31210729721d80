import { describe, expect, test } from "vitest";
import { filePart, imagePart, maxPartBytes } from "../../src/tools/parts.ts";
import { renderResult } from "../../src/tools/render.ts";
import { makePng } from "../support/png.ts";

const png = makePng(4, 2);
const image = imagePart(png);
const pdf = filePart(Buffer.from("%PDF-1.7"), { filename: "r.pdf" });
const { width: _width, height: _height, ...bare } = image;
const text = (words: string): unknown => ({ type: "text", text: words });

describe("images and files in what a tool returns", () => {
  test.each<[string, unknown, unknown]>([
    ["bytes of an image", png, [image]],
    ["an ArrayBuffer", png.buffer.slice(png.byteOffset, png.byteOffset + png.byteLength), [image]],
    ["a part", image, [image]],
    ["parts, in their order", [image, text("and"), pdf], [image, text("and"), pdf]],
    ["a part that does not say its size", [bare], [image]],
    [
      "an object that holds them",
      { title: "Sales", chart: png, files: [pdf] },
      [text('{"title":"Sales","chart":"[image 1]","files":["[file 1]"]}'), image, pdf],
    ],
    ["a list of bytes and values", ["a", png, png], [text('["a","[image 1]","[image 2]"]'), image, image]],
  ])("%s", (_name, value, expected) => {
    expect(renderResult(value)).toEqual(expected);
  });

  test.each<[string, unknown, string]>([
    ["other bytes", { a: Buffer.from("secret") }, '{"a":"[6 bytes of binary data]"}'],
    ["something that only has such a type", { type: "file", name: "a.txt" }, '{"type":"file","name":"a.txt"}'],
    ["an image without its address", { type: "image_url", image_url: {} }, '{"type":"image_url","image_url":{}}'],
    ["a listing of files", [{ type: "file", file: "a.txt" }], '[{"type":"file","file":"a.txt"}]'],
    ["a listing that names paths", [{ type: "file", file: { path: "a" } }], '[{"type":"file","file":{"path":"a"}}]'],
    [
      "an image at no address",
      [{ type: "image_url", image_url: "a.png" }],
      '[{"type":"image_url","image_url":"a.png"}]',
    ],
    ["an object that shows itself", { toJSON: () => "me", image }, '"me"'],
  ])("%s stays what it was", (_name, value, expected) => {
    expect(renderResult(value)).toBe(expected);
  });

  test.each<[string, (url: string) => unknown]>([
    ["in capitals", (url) => url.replace("data:image/png;base64", "DATA:IMAGE/PNG;BASE64")],
    ["with spaces", (url) => ` ${url.replace(";", " ; ")}`],
    ["broken into lines", (url) => url.replace(/.{60}/g, "$&\r\n")],
  ])("a data: URL %s becomes one that servers take", (_name, respell) => {
    const { url } = image.image_url as { url: string };
    expect(renderResult({ type: "image_url", image_url: { url: respell(url), detail: "low" } })).toEqual([
      { ...image, image_url: { url, detail: "low" } },
    ]);
    expect(renderResult([{ type: "image_url", image_url: respell(url) }])).toEqual([image]);
  });

  test("attachments have a bound of their own, and what is over it is named", () => {
    const half = imagePart(makePng(1, 1, maxPartBytes / 2 - 1_000));
    expect(renderResult([half, half, half])).toEqual([
      half,
      half,
      text("[left out: [image: image/png, 1x1, 5.2 MB]; a result holds at most 10 MB of attachments]"),
    ]);
    expect(renderResult({ raw: makePng(1, 1, maxPartBytes) })).toMatch(/^\{"raw":"\[\d+ bytes of binary data\]"\}$/);
  });

  test("a hostile value is survived", () => {
    let deep: unknown = png;
    for (let depth = 0; depth < 1_000; depth++) deep = [deep];
    expect(renderResult(deep)).toMatch(/bytes of binary data/);
    expect(renderResult(Array.from({ length: 50_000 }, () => 1))).toMatch(/^\[1,1/);
    const throwing = {
      get image(): never {
        throw new Error("no");
      },
    };
    expect(renderResult(throwing)).toBe('{"image":"[cannot be read: no]"}');
  });
});
