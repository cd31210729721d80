// What can be said about content parts that are no text, without looking into their data.

/** One part of a message's content: what it is about is in the field that its type names. */
export type Part = { type: string; [field: string]: unknown };

const kinds: Record<string, string> = { image_url: "image", input_audio: "audio" };

/** What people call a part: `image`, `audio`, `file`, or the type itself. */
export function kindOf({ type }: Part): string {
  return kinds[type] ?? type;
}

/** Whether a part is an image, a file or audio in the form of Chat Completions. */
export function isAttachment({ type }: Part): boolean {
  return type === "image_url" || type === "file" || type === "input_audio";
}

/** The address of an image, be it a `data:` URL; undefined if the part is none. */
export function imageUrlOf(part: Part): string | undefined {
  if (part.type !== "image_url") return undefined;
  const image = part.image_url;
  return asText(image) ?? asText(asRecord(image).url);
}

/** The data of a part as it stands there, and what is known of it. `bytes`: decoded. */
export type PartData = { mediaType: string; base64: string; bytes: number };

/** The data that a part carries, in whatever case its `data:` URL is written; undefined for an address or an id. */
export function dataOf(part: Part): PartData | undefined {
  if (part.type === "input_audio") {
    const { data, format } = asRecord(part.input_audio);
    const base64 = asText(data);
    return base64 === undefined ? undefined : toData(`audio/${asText(format) ?? "unknown"}`, base64);
  }
  const url = part.type === "file" ? asText(asRecord(part.file).file_data) : imageUrlOf(part);
  // The data may be many megabytes: no pattern runs over it.
  const comma = /^\s*data:/i.test(url ?? "") ? (url as string).indexOf(",") : -1;
  if (url === undefined || comma === -1) return undefined;
  const [mediaType = "", ...parameters] = url
    .slice(url.indexOf(":") + 1, comma)
    .toLowerCase()
    .split(/\s*;\s*/);
  if (!parameters.includes("base64")) return undefined;
  return toData(mediaType.trim() || "text/plain", url.slice(comma + 1));
}

function toData(mediaType: string, base64: string): PartData {
  const padding = /={0,2}$/.exec(base64.slice(-2))?.[0].length as number;
  return { mediaType, base64, bytes: Math.floor(((base64.length - padding) * 3) / 4) };
}

const textTypes = /^(?:text\/|application\/(?:.*\+)?(?:json|xml|yaml|x-yaml|toml|javascript|sql|x-sh|x-ndjson|jsonl)$)/;

/** Whether a media type is text, which any model can read. */
export function isTextType(mediaType: string): boolean {
  return textTypes.test(mediaType);
}

/** Text of a file that is shown to a model, in bytes; the rest is cut with a note. */
export const maxInlinedBytes: number = 256 * 1024;

/** Whether a part is a file of text. */
export function isTextFile(part: Part): boolean {
  return part.type === "file" && isTextType(dataOf(part)?.mediaType ?? "");
}

const longestName = 100;

/** The name of a file, on one line; undefined where there is none. */
export function fileNameOf(part: Part): string | undefined {
  const name = part.type === "file" ? asText(asRecord(part.file).filename) : undefined;
  return name
    ?.toWellFormed()
    .replaceAll(/[\p{Cc}\s]+/gu, " ")
    .slice(0, longestName);
}

/** `report.pdf, application/pdf, 120 KB`; `image/png, 640x480, 34 KB`; `at pics.example`. Never the data itself. */
export function partFacts(part: Part): string {
  const data = dataOf(part);
  const { width, height } = part;
  const hasSize = typeof width === "number" && typeof height === "number";
  const host = hostOf(imageUrlOf(part));
  return [
    fileNameOf(part),
    data?.mediaType.replaceAll(/[^\w.+/-]/g, "").slice(0, longestName),
    hasSize ? `${width}x${height}` : undefined,
    data && toSize(data.bytes),
    host === undefined ? undefined : `at ${host}`,
  ]
    .filter((fact) => fact !== undefined && fact !== "")
    .join(", ");
}

/** The host of an http or https address. */
export function hostOf(url: string | undefined): string | undefined {
  return /^https?:\/\/(?:[^/?#@]*@)?([^/?#\s]{1,200})/i.exec(url ?? "")?.[1];
}

/** `[image: image/png, 640x480, 34 KB]`: what is shown to people and written to logs and traces in place of a part. */
export function describePart(part: Part): string {
  const facts = partFacts(part);
  const kind = kindOf(part)
    .replaceAll(/[^\w.-]/g, "")
    .slice(0, longestName);
  return facts === "" ? `[${kind}]` : `[${kind}: ${facts}]`;
}

/** A content as people may see it: its text, parts of other kinds described where they stand. */
export function shownText(content: string | readonly Part[] | null): string {
  if (content === null || typeof content === "string") return content ?? "";
  const shown = content.map((part) => asText(part.type === "text" ? part.text : undefined) ?? describePart(part));
  return shown.filter((text) => text !== "").join("\n");
}

/** A number of bytes in words: `512 B`, `34 KB`, `1.2 MB`. */
export function toSize(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  const [value, unit] = bytes < 999_500 ? [bytes / 1_000, "KB"] : [bytes / 1_000_000, "MB"];
  return `${value < 9.95 ? Number(value.toFixed(1)) : Math.round(value)} ${unit}`;
}

/** What is wrong with a part: where, and what must be there. */
export type PartProblem = { path: string[]; message: string };

/** Problems of a part of a known type that lacks what the type is about; parts of other types are the provider's affair. */
export function problemsOfPart(part: Part): PartProblem[] {
  switch (part.type) {
    case "text":
    case "refusal":
      return typeof part[part.type] === "string" ? [] : [{ path: [part.type], message: "must be a string" }];
    case "image_url": {
      const path = ["image_url", "url"];
      const url = asText(asRecord(part.image_url).url);
      if (hostOf(url) !== undefined) return [];
      const isImage = url?.startsWith("data:image/") && isBase64(dataOf(part)?.base64);
      return isImage ? [] : [{ path, message: "must be an http or https URL, or data:image/...;base64,..." }];
    }
    case "input_audio": {
      const { data, format } = asRecord(part.input_audio);
      return [
        ...(isBase64(data) ? [] : [{ path: ["input_audio", "data"], message: "must be base64" }]),
        ...(asText(format) ? [] : [{ path: ["input_audio", "format"], message: 'must be a format such as "wav"' }]),
      ];
    }
    case "file": {
      const { file_data, file_id } = asRecord(part.file);
      if (asText(file_data) || asText(file_id)) return [];
      return [{ path: ["file", "file_data"], message: "must be data:<type>;base64,... (or give file.file_id)" }];
    }
    default:
      return [];
  }
}

function isBase64(value: unknown): boolean {
  return typeof value === "string" && value.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(value);
}

function asText(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}
