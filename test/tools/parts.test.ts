import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { describePart } from "../../src/core/parts.ts";
import { mediaTypeOf, readImage } from "../../src/tools/media-type.ts";
import { filePart, imagePart, maxPartBytes, textPart } from "../../src/tools/parts.ts";
import { makePng } from "../support/png.ts";

const dir = mkdtempSync(join(tmpdir(), "drover-parts-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
function write(name: string, bytes: Uint8Array | string): string {
  const path = join(dir, name);
  writeFileSync(path, bytes);
  return path;
}

const png = makePng(640, 480);
const pngUrl = `data:image/png;base64,${png.toString("base64")}`;
const gif = Buffer.from("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7", "base64");
const webp = Buffer.from("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==", "base64");
const jpeg = Buffer.from("ffd8ffe000104a46494600010100000100010000ffc0000b080010002001011100ffd9", "hex");
const pdf = Buffer.from("%PDF-1.7\n%\u00e2\u00e3\n\0");
const wav = Buffer.concat([Buffer.from("RIFF\x24\0\0\0WAVEfmt "), Buffer.alloc(24)]);
const binary = Buffer.from([0, 255, 1, 254]);

describe("what bytes are", () => {
  test.each<[string, Buffer, string | undefined, string | undefined]>([
    ["PNG", png, undefined, "image/png"],
    ["GIF", gif, undefined, "image/gif"],
    ["WebP", webp, undefined, "image/webp"],
    ["JPEG", jpeg, undefined, "image/jpeg"],
    ["an image under a wrong name", png, "a.pdf", "image/png"],
    ["PDF", pdf, undefined, "application/pdf"],
    ["WAV", wav, undefined, "audio/wav"],
    ["MP3 with a tag", Buffer.from("ID3\x04\0"), undefined, "audio/mpeg"],
    ["MP3", Buffer.from([0xff, 0xfb, 0x90, 0]), undefined, "audio/mpeg"],
    ["CSV by its name", Buffer.from("a,b"), "t.csv", "text/csv"],
    ["Markdown", Buffer.from("# a"), "t.md", "text/markdown"],
    ["JSON", Buffer.from("{}"), "t.json", "application/json"],
    ["code, whatever its name stands for elsewhere", Buffer.from("let a = 1"), "t.ts", "text/plain"],
    ["text without a name", Buffer.from("grüß"), undefined, "text/plain"],
    ["a document by its name", binary, "t.zip", "application/zip"],
    ["no text though the name says so", binary, "t.csv", undefined],
    ["no image though the name says so", binary, "t.png", undefined],
    ["anything", binary, undefined, undefined],
    ["nothing", Buffer.alloc(0), "t.txt", undefined],
  ])("%s", (_name, bytes, name, type) => {
    expect(mediaTypeOf(bytes, name)).toBe(type);
  });

  test("an image that was cut short is none, and nothing throws", () => {
    for (const image of [png, gif, webp, jpeg]) {
      for (let length = 0; length < 20; length++) expect(() => readImage(image.subarray(0, length))).not.toThrow();
    }
    expect(readImage(png.subarray(0, 12))).toBeUndefined();
  });

  test("a large image is known by its first bytes", () => {
    expect(readImage(makePng(3, 2, 2_000_000))).toEqual({ mediaType: "image/png", width: 3, height: 2 });
  });
});

describe("an image part", () => {
  test("from bytes, a file, a data: URL or an address", () => {
    const part = { type: "image_url", image_url: { url: pngUrl }, width: 640, height: 480 };
    expect(imagePart(png)).toEqual(part);
    expect(imagePart(new Uint8Array(png))).toEqual(part);
    expect(imagePart({ path: write("a.png", png) })).toEqual(part);
    expect(imagePart(pngUrl)).toEqual(part);
    expect(imagePart(png, { detail: "low", mediaType: "image/png" }).image_url).toEqual({ url: pngUrl, detail: "low" });
    expect(imagePart(png, { mediaType: "image/PNG" })).toEqual(part);
    const remote = { type: "image_url", image_url: { url: "https://pics.example/a.png" } };
    expect(imagePart("https://pics.example/a.png")).toEqual(remote);
    expect(imagePart(new URL("https://pics.example/a.png"))).toEqual(remote);
    expect(imagePart(jpeg, { mediaType: "image/jpg" }).width).toBe(32);
    expect(describePart(imagePart(jpeg))).toBe("[image: image/jpeg, 32x16, 35 B]");
  });

  test("another kind of image, if its type is given", () => {
    expect(imagePart(binary, { mediaType: "image/heic" })).toEqual({
      type: "image_url",
      image_url: { url: "data:image/heic;base64,AP8B/g==" },
    });
  });

  test.each<[string, () => unknown, string, RegExp]>([
    ["text", () => imagePart(Buffer.from("hello")), "invalid", /5 B are no PNG, JPEG, GIF or WebP image/],
    ["another type than was said", () => imagePart(png, { mediaType: "image/jpeg" }), "invalid", /but image\/png/],
    ["a PDF", () => imagePart(pdf, { mediaType: "application/pdf" }), "invalid", /use filePart/],
    ["a path as text", () => imagePart("/home/a.png"), "invalid", /"\/home\/a.png" is no data:/],
    ["no bytes", () => imagePart(Buffer.alloc(0)), "invalid", /there are none/],
    ["a file that is not there", () => imagePart({ path: join(dir, "no.png") }), "not_found", /cannot be read: ENOENT/],
    ["a directory", () => imagePart({ path: dir }), "invalid", /is no file/],
    ["a device that never ends", () => imagePart({ path: "/dev/zero" }), "invalid", /"\/dev\/zero" is no file/],
    ["too much", () => imagePart(png, { maxBytes: 10 }), "too_large", /a part may have 10/],
    ["too large a file", () => imagePart({ path: write("b.png", png) }, { maxBytes: 10 }), "too_large", /b.png" has/],
    ["too long a URL", () => imagePart(pngUrl, { maxBytes: 10 }), "too_large", /raise maxBytes/],
    ["more than the default", () => imagePart(makePng(1, 1, maxPartBytes)), "too_large", /10485760/],
  ])("%s is refused", (_name, make, code, message) => {
    expect(make).toThrow(
      expect.objectContaining({ name: "DroverError", code, message: expect.stringMatching(message) }),
    );
  });
});

describe("a file part", () => {
  test("of its kind", () => {
    expect(filePart({ path: write("r.pdf", pdf) })).toEqual({
      type: "file",
      file: { filename: "r.pdf", file_data: `data:application/pdf;base64,${pdf.toString("base64")}` },
    });
    expect(filePart(png)).toEqual(imagePart(png));
    expect(filePart(wav)).toEqual({
      type: "input_audio",
      input_audio: { data: wav.toString("base64"), format: "wav" },
    });
    expect(filePart(Buffer.from("ID3\x04"), { mediaType: "audio/mpeg" })).toMatchObject({
      input_audio: { format: "mp3" },
    });
    expect(filePart("data:text/csv;base64,YSxi")).toEqual({
      type: "file",
      file: { filename: "file.txt", file_data: "data:text/csv;base64,YSxi" },
    });
  });

  test("a name is made up where none is given", () => {
    const nameOf = (bytes: Buffer, mediaType?: string): unknown =>
      (filePart(bytes, mediaType === undefined ? {} : { mediaType }).file as { filename: string }).filename;
    expect([nameOf(pdf), nameOf(Buffer.from("x")), nameOf(binary, "application/zip")]).toEqual([
      "file.pdf",
      "file.txt",
      "file.bin",
    ]);
    expect(filePart(pdf, { filename: "mine.pdf" }).file).toMatchObject({ filename: "mine.pdf" });
  });

  test.each<[string, () => unknown, RegExp]>([
    ["unknown bytes", () => filePart(binary), /type of these bytes \(4 B\) cannot be told. Expected an image, a PDF/],
    ["an unknown file", () => filePart(binary, { filename: "a.zzz" }), /type of "a.zzz"/],
    ["an address", () => filePart("https://x.example/a.pdf"), /only images can be given by an address/],
  ])("%s is refused", (_name, make, message) => {
    expect(make).toThrow(message);
  });
});

test("a text part", () => {
  expect(textPart("hi")).toEqual({ type: "text", text: "hi" });
});
