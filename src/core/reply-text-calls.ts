import type { Content } from "./message.ts";
import { textOf } from "./message.ts";
import { type Block, forms, readJsonCalls, type WrittenCall } from "./reply-text-forms.ts";

/** Calls found in a text, and the content without them: what followed was written without their results. */
export type TextCalls = { calls: WrittenCall[]; content: Content | null };

/** What is quoted or thought, not said: markup inside it is no call. */
const quoted = /<(?<tag>think|thinking|reasoning)>[\s\S]*?(?:<\/\k<tag>>|$)|```[\s\S]*?(?:```|$)|`[^`\n]+`/;
const openings = forms.map(({ open }) => open.source).join("|");

/** Openings that are tried in one text; a text full of broken ones must not hold up a worker. */
const maxTries = 100;

/**
 * Calls that a model wrote into its text. A block counts if it is closed, stands outside of code and think blocks, and
 * every call in it is one that `isCall` takes: an offered tool with arguments that fit. A bare or fenced JSON call
 * counts only if it is the whole text. Further blocks count only if nothing stands between them.
 */
export function findTextCalls(content: Content | null, isCall: (call: WrittenCall) => boolean): TextCalls | undefined {
  const text = textOf(content);
  const whole = readWholeText(text);
  if (whole?.every(isCall)) return { calls: whole, content: keepBefore(content, "") };
  const scanner = new RegExp(`(?:${quoted.source})|(?<open>${openings})`, "g");
  let tries = 0;
  for (const { index, groups } of text.matchAll(scanner)) {
    if (groups?.open === undefined) continue;
    const calls = readBlocks(text, index, isCall);
    if (calls.length > 0) return { calls, content: keepBefore(content, text.slice(0, index).trimEnd()) };
    tries += 1;
    if (tries === maxTries) break;
  }
  return undefined;
}

function readWholeText(text: string): WrittenCall[] | undefined {
  const said = text.replace(/^\s*<think>[\s\S]*?<\/think>/, "").trim();
  const fenced = /^```[a-z]*\s*\n([\s\S]*?)\n?```$/.exec(said);
  return readJsonCalls(fenced?.[1] ?? said);
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
  const rest = text.slice(at);
  const form = forms.find(({ open }) => rest.search(open) === 0);
  return form?.read(text, at);
}

function keepBefore(content: Content | null, before: string): Content | null {
  const kept = before.trim() === "" ? null : before;
  if (!Array.isArray(content)) return kept;
  const others = content.filter((part) => part.type !== "text");
  const parts = kept === null ? others : [...others, { type: "text", text: kept }];
  return parts.length > 0 ? parts : null;
}
