import { type Content, textOf } from "./message.ts";

/** Where reasoning leaks into the text, under the names that servers use. */
const thinkBlock = /<(think|thinking|reasoning)>.*?(?:<\/\1>|$)/gs;
/** A template that opens the block in the prompt leaves only its end in the answer. */
const thinkEnd = /^(?:(?!<think>).)*?<\/think>/s;

/** Text without think blocks: what a reader of the answer wants. */
function withoutThinking(text: string): string {
  return text.replace(thinkBlock, "").replace(thinkEnd, "").trim();
}

/**
 * What an assistant message says to its reader: its text without think blocks and parts of other kinds, or its refusal.
 * It is the output of a run that ended with this message.
 */
export function answerTextOf(message: { content: Content | null; refusal?: string | undefined }): string {
  return withoutThinking(textOf(message.content)) || (message.refusal ?? "");
}
