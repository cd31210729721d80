import type { Content } from "./message.ts";
import { textOf } from "./message.ts";
import { afterOpenThought, thoughtSource } from "./reply-text.ts";
import { forms } from "./reply-text-forms.ts";
import { type Block, readJsonCalls, type WrittenCall } from "./reply-text-json.ts";
import { readKeywordCalls } from "./reply-text-markers.ts";

/**
 * What a text holds by way of calls.
 * - `calls`: calls, and the content without them: what followed was written without their results;
 * - `unclear`: it begins a call of that tool which cannot be read, or whose arguments do not fit;
 * - `none`: it is text.
 */
export type TextCalls =
  | { type: "calls"; calls: WrittenCall[]; content: Content | null }
  | { type: "unclear"; name: string }
  | { type: "none" };

/** `isCall`: an offered tool with arguments that fit. `isTool`: the name of an offered tool. */
export type Takes = { isCall: (call: WrittenCall) => boolean; isTool: (name: string) => boolean };

/** What is quoted or thought, not said: markup inside it is no call. Fences, code, quotations, comments, thoughts. */
const quotedSource = [
  "(?<=^|\\n) {0,3}(?<fence>`{3,}|~{3,})[^\\n`]*\\n[\\s\\S]*?(?:(?<=\\n) {0,3}\\k<fence>[`~]*[^\\S\\n]*(?=\\n|$)|$)",
  "(?<!`)(?<ticks>`{1,2})(?!`)(?:(?!\\n\\s*\\n)[\\s\\S])*?(?<!`)\\k<ticks>(?!`)",
  "```[\\s\\S]*?(?:```|$)",
  "(?<=^|\\n) {0,3}>(?!>>)[^\\n]*",
  "<!--[\\s\\S]*?-->",
  thoughtSource,
].join("|");
const openings = forms.map(({ open }) => open.source).join("|");
const readers = forms.map(({ open, read }) => ({ at: new RegExp(open.source, "y"), read }));

/** Openings that are tried in one text; a text full of broken ones must not hold up a worker. */
const maxTries = 100;

/**
 * Calls that a model wrote into its text. A block counts if it is closed, stands outside of code and think blocks, and
 * every call in it is one that `isCall` takes. A bare or fenced JSON call counts only if it is the whole text. Further
 * blocks count only if nothing stands between them.
 */
export function findTextCalls(content: Content | null, takes: Takes): TextCalls {
  const text = textOf(content);
  const from = afterOpenThought(text);
  const whole = readWholeText(text.slice(from));
  if (whole?.every(takes.isCall)) return { type: "calls", calls: whole, content: keepBefore(content, "") };
  const scanner = new RegExp(`(?<open>${openings})|(?:${quotedSource})`, "g");
  scanner.lastIndex = from;
  let tries = 0;
  let unclear: string | undefined;
  for (const { index, groups } of text.matchAll(scanner)) {
    const open = groups?.open;
    if (open === undefined) continue;
    const calls = readBlocks(text, index, takes.isCall);
    if (calls.length > 0) return { type: "calls", calls, content: keepBefore(content, text.slice(0, index).trimEnd()) };
    const named = readHead(text, index, open);
    if (named !== undefined && takes.isTool(named)) unclear ??= named;
    tries += 1;
    if (tries === maxTries) break;
  }
  return unclear === undefined ? { type: "none" } : { type: "unclear", name: unclear };
}

const leadingThought = new RegExp(`^\\s*(?:${thoughtSource})`);

function readWholeText(text: string): WrittenCall[] | undefined {
  const said = text.replace(leadingThought, "").trim();
  const isList = said.startsWith("[") && said.endsWith("]");
  return readJsonCalls(said, { bare: true }) ?? (isList ? readKeywordCalls(said) : undefined);
}

/** The calls of all blocks that follow each other from `start`. */
function readBlocks(text: string, start: number, isCall: (call: WrittenCall) => boolean): WrittenCall[] {
  const calls: WrittenCall[] = [];
  for (let at = start; ; ) {
    const block = readBlock(text, at);
    if (!block?.calls.every(isCall)) return calls;
    calls.push(...block.calls);
    at = text.length - text.slice(block.end).trimStart().length;
  }
}

function readBlock(text: string, at: number): Block | undefined {
  const form = readers.find(({ at: open }) => {
    open.lastIndex = at;
    return open.test(text);
  });
  return form?.read(text, at);
}

/** The tool that a block names in its first words, whether or not the rest can be read. */
function readHead(text: string, at: number, open: string): string | undefined {
  const after = text.slice(at + open.length, at + open.length + 300);
  const head = open.startsWith("<") ? after.trimStart() : after;
  for (const pattern of headPatterns) {
    const name = pattern.exec(head)?.[1];
    if (name !== undefined) return name;
  }
  return undefined;
}

const headPatterns = [
  /^[\s[]*\{\s*["'](?:name|tool_name|function|tool)["']\s*:\s*["']([^"'\n]+)["']/,
  /^"([^"\n]+)"/,
  /^(?:<[^<>]*>\s*)*<[^<>"]*invoke name="([^"\n]+)"/,
  /^(?:<[^<>]*>\s*)*(?:function<｜tool▁sep｜>)?([\w.:-]+)\s*(?:[{([<>=]|\n|$)/,
];

function keepBefore(content: Content | null, before: string): Content | null {
  const kept = before.trim() === "" ? null : before;
  if (!Array.isArray(content)) return kept;
  const others = content.filter((part) => part.type !== "text");
  const parts = kept === null ? others : [...others, { type: "text", text: kept }];
  return parts.length > 0 ? parts : null;
}
