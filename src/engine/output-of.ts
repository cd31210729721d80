import type { Message } from "../core/message.ts";
import { findJson } from "../core/output.ts";
import { answerTextOf } from "../core/reply-text.ts";
import type { Run } from "../core/run.ts";

/** The final answer of a completed run; its last message, since nothing is appended after the end. */
export function outputOf<Output = string>(
  { structured }: Run,
  last: Message | undefined,
  read?: (value: unknown) => Output,
): Output | undefined {
  if (last?.role !== "assistant") return undefined;
  const text = answerTextOf(last);
  const found = structured ? findJson(text) : undefined;
  // Whoever gives no agent reads text: `Output` is then its default.
  if (!found?.found) return read ? read(text) : (text as Output);
  return read ? read(found.value) : (JSON.stringify(found.value) as Output);
}
