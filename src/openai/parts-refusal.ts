// How servers say that they do not take a kind of content, in their own words. Told apart from complaints about one
// image (its format, its size, its address), which say nothing about the next.

import type { ContentPart } from "../core/message.ts";
import { hostOf, imageUrlOf } from "../core/parts.ts";
import type { ModelFailure } from "../ports.ts";
import type { ServerError } from "./server-error.ts";

/** The messages of a request, as far as it matters here. */
export type SentMessage = { role: string; content?: unknown };

/** Words for each type of part. */
const words: Record<string, string> = {
  image_url: "image_?urls?|images?|vision|pictures?",
  file: "files?|pdfs?|documents?",
  input_audio: "input_audio|audios?",
};

/** Refusals that no other words would change: of the key, of the account, of the rate. */
const otherStatuses = new Set([401, 402, 403, 408, 429]);

/**
 * What in the parts of a request was refused, most likely first:
 * - `part.image_url`, `part.file`, `part.input_audio`, or another type of a part;
 * - `content.parts`: content must be one string;
 * - `results.shown`, then `results.bridged`: a user message after the results of tools.
 *
 * @param raw the whole body of the refusal: gateways put what the server behind them said somewhere inside.
 */
export function refusedParts(error: ServerError, messages: readonly SentMessage[], raw: string): string[] {
  if (error.status !== undefined && otherStatuses.has(error.status)) return [];
  const types = typesOf(messages);
  const text = `${error.message} ${error.param ?? ""} ${raw.slice(0, longestRaw)}`.replaceAll(/[\\\s]+/g, " ");
  const refusesAll = refusalsOfAll.some((pattern) => pattern.test(text));
  return [
    ...types.filter((type) => type !== "text" && (refusesAll || isRefused(type, text))).map((type) => `part.${type}`),
    ...(types.length > 0 && isStringWanted(text, messages) ? ["content.parts"] : []),
    ...(showsResults(messages) && orderRefusals.test(text) ? ["results.shown", "results.bridged"] : []),
  ];
}

const longestRaw = 4_000;

function typesOf(messages: readonly SentMessage[]): string[] {
  const parts = messages.flatMap(({ content }) => (Array.isArray(content) ? (content as { type?: unknown }[]) : []));
  return [...new Set(parts.map(({ type }) => String(type)))];
}

/** Nothing but text. */
const refusalsOfAll = [
  /not (?:an? )?(?:multi-?modal|vision)(?: language)?(?: model)?\b/i,
  /(?:not|n't) (?:currently )?support (?:multi-?modal|vision|media)/i,
  /(?:multi-?modal|vision)(?: inputs?| requests?| content)? (?:is |are )?(?:not|n't) (?:supported|enabled|available)/i,
  /only (?:supports?|accepts?|takes?|allows?) (?:plain )?text\b/i,
  /text[- ]only model/i,
  /vision add-on is not loaded/i,
  /only text (?:content |input )?(?:parts? |is |are )*(?:supported|accepted|allowed)/i,
  /input should be (?:<[^>]*)?['"]?text\b/i,
];

function isRefused(type: string, text: string): boolean {
  const word = words[type] ?? escape(type);
  const patterns = [
    // "image_url is only supported by certain models", "Image input is not enabled", "audio input modality is not supported"
    `\\b(?:${word})['"\`]?(?: (?:inputs?|contents?|modality|parts?|types?|understanding|attachments?))* (?:is|are) (?:only supported|not (?:currently )?(?:supported|enabled|available|allowed|permitted|accepted)|unsupported|disabled)`,
    // "does not support image input", "cannot process images"
    `(?:not|n't|cannot|unable to) (?:currently )?(?:support|accept|take|process|handle|allow|understand|view|see)(?:ing|s|ed)? (?:any |the |content type |input )?['"\`]?(?:${word})\\b${notOneOfThem}`,
    // "unknown variant \`image_url\`, expected \`text\`", "unsupported content part type: image_url"
    `(?:unknown variant|(?:unsupported|invalid|unknown|unexpected|unrecognized) (?:message )?(?:content )?(?:part |block )?type:?) ?['"\`]?(?:${word})\\b`,
    `input_value=['"](?:${word})['"]`,
    // "No endpoints found that support image input"
    `no (?:endpoints?|models?|providers?) (?:found |available )?(?:that |which )?supports? (?:input )?(?:${word})`,
    `missing (?:the )?data required for (?:${word})`,
    `at most 0 (?:${word})`,
    `['"\`]type['"\`] (?:value )?['"\`]?(?:${word})['"\`]? (?:is )?not (?:supported|allowed)`,
  ];
  return patterns.some((pattern) => new RegExp(pattern, "i").test(text));
}

/** What follows the word in a complaint about one image: its format, its address. */
const notOneOfThem =
  "(?! ?(?:formats?|types?|sizes?|urls?|dimensions?|resolutions?|extensions?|encodings?|with|of|larger|over|above|from)\\b)";

/** "content must be a string" and its kin; where the message is named, it has to be one with parts. */
function isStringWanted(text: string, messages: readonly SentMessage[]): boolean {
  if (!stringWanted.some((pattern) => pattern.test(text))) return false;
  const index = /messages['"]?[.,[\]\s]{1,3}(\d+)/.exec(text)?.[1];
  const named = index === undefined ? undefined : messages[Number(index)];
  return named === undefined || Array.isArray(named.content);
}

const stringWanted = [
  /content\b.{0,80}(?:must|should|expected|needs?)(?: to)?(?: be)?:? (?:an? |of type )?(?:valid )?['"]?str(?:ing)?\b/i,
  /content\b.{0,60}(?:is|was) not an? (?:valid )?string/i,
  /content\b.{0,160}(?:input should be a valid string|str type expected)/i,
  /invalid type: (?:sequence|array), expected an? (?:borrowed )?string/i,
  /cannot unmarshal array into .{0,60}content.{0,20} of type string/i,
  /expected (?:a )?string, (?:but )?(?:got|received) (?:an )?(?:array|list)/i,
  /can only concatenate str \(not "list"\)/i,
];

const orderRefusals =
  /\balternat|unexpected role ['"]?user['"]? after(?: role)? ['"]?tool|user (?:message|role) (?:can ?not|must not|may not|after).{0,40}\btool/i;

/** Whether a user message with attachments follows the results of tools, at once or after a bridge. */
function showsResults(messages: readonly SentMessage[]): boolean {
  return messages.some(({ role, content }, index) => {
    const before = [messages[index - 1]?.role, messages[index - 2]?.role];
    return role === "user" && Array.isArray(content) && before.includes("tool");
  });
}

function escape(word: string): string {
  return word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/** Complaints that an image could not be fetched from its address. */
const fetchRefusals = [
  /(?:fail(?:ed|ure)|error|unable|could not|couldn't|cannot|can't|timed? ?out)\b.{0,60}(?:download|fetch|retriev|load|access|open|connect|reach)\w*\b.{0,80}(?:image|url|http|host|media|file)/i,
  /(?:image|url)\b.{0,60}(?:could not be|cannot be|can't be|not) (?:downloaded|fetched|retrieved|loaded|reached|accessed|accessible|found)/i,
  /invalid_image_url/,
];

/**
 * What a refusal means that is about an image which the server could not fetch: permanent, named by its host. The rest of
 * the address is left out, since it can carry secrets. Undefined if the refusal is about something else.
 */
export function unreachableImage(
  error: ServerError,
  messages: readonly SentMessage[],
  raw: string,
  server: string,
): ModelFailure | undefined {
  if (error.status !== undefined && otherStatuses.has(error.status)) return undefined;
  const urls = remoteImages(messages);
  const text = `${error.code ?? ""} ${error.message} ${raw.slice(0, longestRaw)}`;
  if (urls.length === 0 || !fetchRefusals.some((pattern) => pattern.test(text))) return undefined;
  const hosts = [...new Set(urls.map((url) => hostOf(url) ?? "an unknown host"))];
  const named = hosts.filter((host) => text.includes(host));
  const from = (named.length > 0 ? named : hosts).join(" or ");
  const told = urls.reduce((message, url) => message.replaceAll(url, hostOf(url) ?? "[address]"), error.message);
  return {
    class: "permanent",
    code: "image_unreachable",
    message: `The model server at ${server} could not fetch an image from ${from}. Send the image itself, or an address that it can reach. It said: ${told}`,
    ...(error.status === undefined ? {} : { status: error.status }),
  };
}

function remoteImages(messages: readonly SentMessage[]): string[] {
  const parts = messages.flatMap(({ content }) => (Array.isArray(content) ? (content as ContentPart[]) : []));
  return parts.map(imageUrlOf).filter((url) => url !== undefined && !url.startsWith("data:")) as string[];
}

/** A server may quote what it was sent: no data of a part belongs into an error, a log or a trace. */
export function withoutData(text: string): string {
  return text
    .replaceAll(/data:[\w.+/;=-]{0,100},[A-Za-z0-9+/=]{16,}/g, "[data]")
    .replaceAll(/[A-Za-z0-9+/]{200,}={0,2}/g, "[data]");
}
