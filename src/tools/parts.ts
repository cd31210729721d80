// Content parts in the form of Chat Completions, for input and for what tools return.

import { readFileSync, statSync } from "node:fs";
import { basename } from "node:path";
import { DroverError, toError } from "../core/errors.ts";
import type { ContentPart } from "../core/message.ts";
import { dataOf, hostOf, isTextType, toSize } from "../core/parts.ts";
import { mediaTypeOf, readImage } from "./media-type.ts";

/** Bytes, the path of a file, or an address: `data:`, and for images `http:` and `https:`. */
export type PartSource = string | URL | Uint8Array | { path: string };

export type ImagePartOptions = {
  /** Default: told from the bytes. Needed for images that are no PNG, JPEG, GIF or WebP. */
  mediaType?: string | undefined;
  /** How closely the model looks, where it can be chosen. */
  detail?: "auto" | "low" | "high" | undefined;
  /** Default 10 MiB. A start takes 1 MiB of JSON in all unless `payloadLimitBytes` says otherwise. */
  maxBytes?: number | undefined;
};

export type FilePartOptions = {
  /** Default: the name in the path, or one made from the type. */
  filename?: string | undefined;
  /** Default: told from the bytes, else from the name. */
  mediaType?: string | undefined;
  /** Default 10 MiB. */
  maxBytes?: number | undefined;
};

/** No part is larger than this unless told otherwise, in bytes before base64. */
export const maxPartBytes: number = 10 * 1024 * 1024;

/** Text among other parts. */
export function textPart(text: string): ContentPart {
  return { type: "text", text };
}

/**
 * An image for a model to look at. Bytes and files travel with the message; an http or https address is fetched by the
 * model's server.
 *
 * @throws DroverError "invalid" for what is no image or no file, "too_large" over `maxBytes`, "not_found" for a file that is not there.
 */
export function imagePart(source: PartSource, options: ImagePartOptions = {}): ContentPart {
  const { detail } = options;
  const more = detail === undefined ? {} : { detail };
  const address = typeof source === "string" || source instanceof URL ? String(source) : undefined;
  if (hostOf(address) !== undefined) return { type: "image_url", image_url: { url: address, ...more } };
  const { bytes, told } = readSource(source, options.maxBytes);
  const facts = readImage(bytes);
  const mediaType = toImageType(bytes, facts?.mediaType, options.mediaType?.toLowerCase() ?? told);
  const size = facts ? { width: facts.width, height: facts.height } : {};
  return { type: "image_url", image_url: { url: toDataUrl(mediaType, bytes), ...more }, ...size };
}

/** What the bytes say and what the caller says have to agree: servers refuse an image under a wrong type. */
function toImageType(bytes: Uint8Array, found: string | undefined, asked: string | undefined): string {
  const mediaType = found ?? (asked?.startsWith("image/") ? asked : undefined);
  if (mediaType !== undefined && (asked === undefined || isSameType(asked, mediaType))) return mediaType;
  const but = found === undefined ? "" : ` but ${found}`;
  throw new DroverError(
    "invalid",
    `These ${toSize(bytes.length)} are no ${asked ?? "PNG, JPEG, GIF or WebP"} image${but}. Give a PNG, JPEG, GIF or WebP image, the mediaType of another image, or use filePart.`,
  );
}

function isSameType(a: string, b: string): boolean {
  return a.replace("/jpg", "/jpeg") === b.replace("/jpg", "/jpeg");
}

/**
 * A file for a model to read. Images become image parts, WAV and MP3 become audio parts; files of text are shown to every
 * model as text.
 *
 * @throws DroverError "invalid" for a type that cannot be told, "too_large" over `maxBytes`, "not_found" for a file that is not there.
 */
export function filePart(source: PartSource, options: FilePartOptions = {}): ContentPart {
  const { bytes, told, name } = readSource(source, options.maxBytes);
  const filename = options.filename ?? name;
  const mediaType = options.mediaType?.toLowerCase() ?? told ?? mediaTypeOf(bytes, filename);
  if (mediaType === undefined) {
    throw new DroverError(
      "invalid",
      `The type of ${filename === undefined ? "these bytes" : `"${filename}"`} (${toSize(bytes.length)}) cannot be told. Expected an image, a PDF, WAV or MP3 audio, UTF-8 text, or a mediaType.`,
    );
  }
  if (mediaType.startsWith("image/") && readImage(bytes)) return imagePart(bytes, options);
  const format = audioFormats[mediaType];
  if (format !== undefined) return { type: "input_audio", input_audio: { data: toBase64(bytes), format } };
  const file = { filename: filename ?? toFileName(mediaType), file_data: toDataUrl(mediaType, bytes) };
  return { type: "file", file };
}

const audioFormats: Record<string, string> = {
  "audio/wav": "wav",
  "audio/x-wav": "wav",
  "audio/mpeg": "mp3",
  "audio/mp3": "mp3",
};

/** Servers ask for a name with the data. */
function toFileName(mediaType: string): string {
  if (mediaType === "application/pdf") return "file.pdf";
  return isTextType(mediaType) ? "file.txt" : "file.bin";
}

type Read = { bytes: Uint8Array; told?: string | undefined; name?: string | undefined };

function readSource(source: PartSource, maxBytes: number = maxPartBytes): Read {
  if (source instanceof Uint8Array) return { bytes: checked(source, maxBytes) };
  if (typeof source === "string" || source instanceof URL) return readDataUrl(String(source), maxBytes);
  try {
    const found = statSync(source.path);
    // A device or a pipe may never end.
    if (!found.isFile())
      throw new DroverError("invalid", `"${source.path}" is no file. Give the path of one, or bytes.`);
    checkSize(found.size, maxBytes, `"${source.path}"`);
    return { bytes: checked(readFileSync(source.path), maxBytes), name: basename(source.path) };
  } catch (thrown) {
    if (thrown instanceof DroverError) throw thrown;
    throw new DroverError("not_found", `The file "${source.path}" cannot be read: ${toError(thrown).message}`, {
      cause: thrown,
    });
  }
}

function readDataUrl(url: string, maxBytes: number): Read {
  const data = dataOf({ type: "image_url", image_url: { url } });
  if (!data) {
    const shown = JSON.stringify(url.slice(0, 60));
    throw new DroverError(
      "invalid",
      `${shown} is no data:<type>;base64,... address${/^https?:/.test(url) ? "; only images can be given by an address" : ""}. Give bytes, { path }, or such an address.`,
    );
  }
  checkSize(data.bytes, maxBytes, "The data");
  return { bytes: checked(Buffer.from(data.base64, "base64"), maxBytes), told: data.mediaType };
}

function checked(bytes: Uint8Array, maxBytes: number): Uint8Array {
  checkSize(bytes.length, maxBytes, "The data");
  if (bytes.length === 0) throw new DroverError("invalid", "A part needs bytes; there are none.");
  return bytes;
}

function checkSize(size: number, maxBytes: number, what: string): void {
  if (size <= maxBytes) return;
  throw new DroverError(
    "too_large",
    `${what} has ${size} bytes; a part may have ${maxBytes}. Make it smaller, or raise maxBytes.`,
  );
}

function toBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
}

function toDataUrl(mediaType: string, bytes: Uint8Array): string {
  return `data:${mediaType};base64,${toBase64(bytes)}`;
}
