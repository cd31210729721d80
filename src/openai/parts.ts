// Content parts as a server takes them. What it does not take is described in text. Pure.

import type { Content, ContentPart } from "../core/message.ts";
import {
  dataOf,
  fileNameOf,
  hostOf,
  imageUrlOf,
  isAttachment,
  isTextFile,
  kindOf,
  maxInlinedBytes,
  partFacts,
} from "../core/parts.ts";
import type { Quirks } from "./quirks.ts";

/** Whether the server takes a part of this type, as far as is known. */
function takes({ type }: ContentPart, quirks: Quirks): boolean {
  return !quirks.has("content.parts") && !quirks.has(`part.${type}`);
}

/**
 * The content of a message that is not a tool's. Parts that the server takes go as they are, files of text as their
 * text, others as a description; if only text is left of it, or the server takes no parts at all, it is one string.
 */
export function fitContent(content: Content, quirks: Quirks): Content {
  if (typeof content === "string") return content;
  const fitted = content.map((part) => fitPart(part, quirks));
  const isChanged = quirks.has("content.parts") || fitted.some((part, index) => part?.type !== content[index]?.type);
  const kept = fitted.filter((part) => part !== undefined);
  return isChanged ? joinTexts(kept, quirks) : kept;
}

/** Undefined for a part that is neither text nor attachment, on a server that does not take it: a provider's own. */
function fitPart(part: ContentPart, quirks: Quirks): ContentPart | undefined {
  if (part.type === "text") return part;
  if (isTextFile(part)) return asText(inlineText(part));
  if (takes(part, quirks)) return isAttachment(part) ? toWirePart(part) : part;
  if (part.type === "refusal") return asText(String(part.refusal));
  return isAttachment(part) ? asText(`[${nameOf(part)}: ${unseen[part.type]}]`) : undefined;
}

const unseen: Record<string, string> = {
  image_url: "you cannot see it",
  input_audio: "you cannot hear it",
  file: "you cannot read it",
};

/** `width` and `height` are ours: servers refuse fields that they do not know. */
function toWirePart(part: ContentPart): ContentPart {
  const { width: _width, height: _height, ...rest } = part;
  return rest as ContentPart;
}

/** Text parts as one string; left as parts if they carry fields of a provider that the server may need. */
function joinTexts(parts: readonly ContentPart[], quirks: Quirks): Content {
  const isPlain = parts.every((part) => part.type === "text" && Object.keys(part).length === 2);
  if (!isPlain && !quirks.has("content.parts")) return [...parts];
  return parts.map(({ text }) => String(text)).join("\n\n");
}

function asText(text: string): ContentPart {
  return { type: "text", text };
}

/** `image: image/png, 640x480, 34 KB`; an address in whole, since a tool may be able to look at it. */
function nameOf(part: ContentPart, label: string = kindOf(part)): string {
  const url = imageUrlOf(part);
  const facts = url !== undefined && hostOf(url) !== undefined ? url : partFacts(part);
  return facts === "" ? label : `${label}: ${facts}`;
}

/** A file of text as its name and its text, fenced. */
function inlineText(part: ContentPart): string {
  const { mediaType, base64, bytes } = dataOf(part) ?? { mediaType: "", base64: "", bytes: 0 };
  const head = Buffer.from(base64.slice(0, Math.ceil(maxInlinedBytes / 3) * 4), "base64").subarray(0, maxInlinedBytes);
  // As if more were to come: a character that was cut in two is left out.
  const text = new TextDecoder().decode(head, { stream: bytes > maxInlinedBytes });
  const longestRun = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map(([run]) => run.length));
  const fence = "`".repeat(longestRun + 1);
  const note = bytes > maxInlinedBytes ? `\n[cut: the first ${head.length} of ${bytes} bytes are shown]` : "";
  return `File ${fileNameOf(part) ?? "without a name"} (${mediaType}):\n${fence}\n${text}\n${fence}${note}`;
}

/** A tool's result as a message may hold it, and what is shown after the results, each part with its label before it. */
export type FittedResult = { content: Content; attached: ContentPart[] };

/**
 * A tool message may hold only text. Each attachment leaves a line where it stood, which says what it is and where it
 * is shown, or that the model cannot see it.
 *
 * @param caller the tool's name, told apart from other calls of it in the same turn.
 */
export function fitResult(content: Content, caller: string, quirks: Quirks): FittedResult {
  if (typeof content === "string" || !content.some(isAttachment)) {
    return { content: fitContent(content, quirks), attached: [] };
  }
  const attached: ContentPart[] = [];
  const counts = new Map<string, number>();
  const texts = content.flatMap((part) => {
    if (!isAttachment(part)) return fitPart(part, quirks) ?? [];
    const number = (counts.get(part.type) ?? 0) + 1;
    counts.set(part.type, number);
    const label = `${kindOf(part)} ${number} of call ${caller}`;
    if (isTextFile(part)) return asText(`[${label}]\n${inlineText(part)}`);
    const isShown = takes(part, quirks) && !quirks.has("results.bridged");
    if (isShown) attached.push(asText(`[${label}]`), toWirePart(part));
    return asText(`[${nameOf(part, label)}: ${isShown ? "shown below" : unseen[part.type]}]`);
  });
  return { content: joinTexts(texts, quirks), attached };
}
