import { type Content, textOf } from "./message.ts";

/**
 * Where reasoning leaks into the text, under the names that models and servers use; an end that is missing is the end
 * of the text. A pattern's source, to be used without flags that change its meaning.
 */
export const thoughtSource: string = [
  String.raw`<(?<thought>think|thinking|thought|reasoning|seed:think)>[\s\S]*?(?:<\/\k<thought>>|$)`,
  String.raw`\[THINK\][\s\S]*?(?:\[\/THINK\]|$)`,
  String.raw`◁think▷[\s\S]*?(?:◁\/think▷|$)`,
  String.raw`<\|channel\|>analysis<\|message\|>[\s\S]*?(?:<\|end\|>|(?=<\|start\|>|<\|channel\|>)|$)`,
].join("|");

const thought = new RegExp(thoughtSource, "g");
/** A template that opens the block in the prompt leaves only its end in the answer. */
const thoughtEnd = /^(?:(?!<think>)[\s\S])*?<\/think>/;
/** What GPT-OSS writes around what it says. */
const channelMarks =
  /<\|start\|>assistant|<\|channel\|>(?:final|commentary)(?: <\|constrain\|>\w+)?<\|message\|>|<\|(?:end|return)\|>/g;

/** Where the text goes on after thoughts whose beginning was in the prompt; 0 if there are none. */
export function afterOpenThought(text: string): number {
  return thoughtEnd.exec(text)?.[0].length ?? 0;
}

/** Text without think blocks: what a reader of the answer wants. */
function withoutThinking(text: string): string {
  const said = text.replace(thought, "").replace(thoughtEnd, "");
  return (said.includes("<|") ? said.replace(channelMarks, "") : said).trim();
}

/**
 * What an assistant message says to its reader: its text without think blocks and parts of other kinds, or its refusal.
 * It is the output of a run that ended with this message.
 */
export function answerTextOf(message: { content: Content | null; refusal?: string | undefined }): string {
  return withoutThinking(textOf(message.content)) || (message.refusal ?? "");
}
