// What bytes are: by their first bytes where these tell, else by the name of the file.

import { isUtf8 } from "node:buffer";
import { imageSize } from "image-size";
import { lookup } from "mrmime";
import { isTextType } from "../core/parts.ts";

/** `width` and `height` in pixels. */
export type ImageFacts = { mediaType: string; width: number; height: number };

/** The forms that model servers take. */
const imageTypes: Record<string, string> = {
  png: "image/png",
  jpg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
};

/** What an image is stands in its first bytes; whoever made these must not keep us busy with the rest. */
const headBytes = 512 * 1024;

/** What an image is; undefined for bytes that are no PNG, JPEG, GIF or WebP. Never throws. */
export function readImage(bytes: Uint8Array): ImageFacts | undefined {
  try {
    const { type, width, height } = imageSize(bytes.subarray(0, headBytes));
    const mediaType = imageTypes[type ?? ""];
    return mediaType === undefined ? undefined : { mediaType, width, height };
  } catch {
    return undefined;
  }
}

/** The media type of a file; undefined if neither its bytes nor its name tell. Text of whatever name is text. */
export function mediaTypeOf(bytes: Uint8Array, name: string | undefined): string | undefined {
  const told = readImage(bytes)?.mediaType ?? signatureOf(bytes);
  if (told !== undefined) return told;
  const named = lookup(name ?? "");
  if (isText(bytes)) return named !== undefined && isTextType(named) ? named : "text/plain";
  // Their bytes would have told: the name is wrong.
  const isDoubtful = named === undefined || isTextType(named) || /^(?:image|audio)\/|\/pdf$/.test(named);
  return isDoubtful ? undefined : named;
}

function signatureOf(bytes: Uint8Array): string | undefined {
  const head = Buffer.from(bytes.subarray(0, 12)).toString("latin1");
  if (head.startsWith("%PDF-")) return "application/pdf";
  if (head.startsWith("RIFF") && head.endsWith("WAVE")) return "audio/wav";
  const isMpegFrame = bytes[0] === 0xff && [0xfb, 0xfa, 0xf3, 0xf2].includes(bytes[1] ?? 0);
  return head.startsWith("ID3") || isMpegFrame ? "audio/mpeg" : undefined;
}

function isText(bytes: Uint8Array): boolean {
  return bytes.length > 0 && isUtf8(bytes) && !bytes.includes(0);
}
