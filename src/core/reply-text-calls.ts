import type { Content } from "./message.ts";
import { textOf } from "./message.ts";
import { type Block, forms, readJsonCalls, type WrittenCall } from "./reply-text-forms.ts";

/** Calls found in a text, and the content without them: what followed was written without their results. */
export type TextCalls = { calls: WrittenCall[]; content: Content | null };

/** What is quoted or thought, not said: markup inside it is no call. */
const quoted = /<(think|thinking|reasoning)>[\s\S]*?(?:<\/\1>|$)|```[\s\S]*?(?:```|$)|`[^`\n]+`/;

/**
 * Calls that a model wrote into its text. A block counts if it is closed, stands outside of code and think blocks, and
 * every call in it is one that `isCall` takes: an offered tool with arguments that fit. A bare or fenced JSON call
 * counts only if it is the whole text. Further blocks count only if nothing stands between them.
 */
export function findTextCalls(content: Content | null, isCall: (call: WrittenCall) => boolean): TextCalls | undefined {
  const text = textOf(content);
  const whole = readWholeText(text);
  if (whole?.every(isCall)) return { calls: whole, content: keepBefore(content, "") };
  for (let at = 0; at < text.length; ) {
    const start = nextOpening(text, at);
    if (start === undefined) return undefined;
    const calls = readBlocks(text, start.at, isCall);
    if (calls.length > 0) return { calls, content: keepBefore(content, text.slice(0, start.at).trimEnd()) };
    at = start.at + start.length;
  }
  return undefined;
}

function readWholeText(text: string): WrittenCall[] | undefined {
  const said = text.replace(/^\s*<think>[\s\S]*?<\/think>/, "").trim();
  const fenced = /^```[a-z]*\s*\n([\s\S]*?)\n?```$/.exec(said);
  return readJsonCalls(fenced?.[1] ?? said);
}

/** Where the next block may begin, quoted text passed over. */
function nextOpening(text: string, from: number): { at: number; length: number } | undefined {
  for (let at = from; ; ) {
    const rest = text.slice(at);
    const openings = forms.map(({ open }) => open.exec(rest)).filter((match) => match !== null);
    const first = openings.sort((a, b) => a.index - b.index)[0];
    if (!first) return undefined;
    const quote = quoted.exec(rest);
    if (!quote || quote.index > first.index) return { at: at + first.index, length: first[0].length };
    at += quote.index + quote[0].length;
  }
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
  const form = forms.find(({ open }) => open.exec(text.slice(at))?.index === 0);
  return form?.read(text, at);
}

function keepBefore(content: Content | null, before: string): Content | null {
  const kept = before.trim() === "" ? null : before;
  if (!Array.isArray(content)) return kept;
  const others = content.filter((part) => part.type !== "text");
  const parts = kept === null ? others : [...others, { type: "text", text: kept }];
  return parts.length > 0 ? parts : null;
}
