import type { InputMessage, Message } from "../../core/message.ts";
import { badField } from "./errors.ts";
import type { Answered, Called, InputEntry } from "./input.ts";

/** Messages of a transcript as what a new run's input is made of. */
export function toEntries(messages: readonly Message[]): InputEntry[] {
  return messages.flatMap((message): InputEntry[] => {
    if (message.role === "tool") {
      return [{ type: "result", id: message.toolCallId, value: message.content, param: "" }];
    }
    if (message.role !== "assistant") return [{ type: "message", role: message.role, content: message.content }];
    const content = message.content ?? message.refusal ?? "";
    const calls = (message.toolCalls ?? []).map(
      ({ id, name, arguments: args }): Called => ({ type: "call", id, name, arguments: args }),
    );
    const says = content.length > 0;
    return [...(says ? [{ type: "message" as const, role: "assistant" as const, content }] : []), ...calls];
  });
}

/**
 * Entries as a run's input. Calls that follow each other are one message with what was said before them, and their
 * results come right after it, in the order of the calls, wherever they stood.
 *
 * @throws V1Error for a call without a result, and a result without a call.
 */
export function toInput(entries: readonly InputEntry[]): InputMessage[] {
  const results = new Map<string, Answered[]>();
  for (const entry of entries) {
    if (entry.type === "result") results.set(entry.id, [...(results.get(entry.id) ?? []), entry]);
  }
  const messages: InputMessage[] = [];
  let calls: Called[] = [];
  const endCalls = (): void => {
    if (calls.length > 0) addCalls(messages, calls, results);
    calls = [];
  };
  for (const entry of entries) {
    if (entry.type === "call") calls.push(entry);
    else endCalls();
    if (entry.type === "message") messages.push({ role: entry.role, content: entry.content });
  }
  endCalls();
  const [left] = [...results.values()].flat();
  if (left) throw badField("input", `No tool call found for function call output with call_id ${left.id}.`);
  return messages;
}

function addCalls(messages: InputMessage[], calls: Called[], results: Map<string, Answered[]>): void {
  const last = messages.at(-1);
  const toolCalls = calls.map(({ id, name, arguments: args }) => ({ id, name, arguments: args }));
  if (last?.role === "assistant" && !last.toolCalls) messages[messages.length - 1] = { ...last, toolCalls };
  else messages.push({ role: "assistant", content: "", toolCalls });
  for (const { id } of calls) {
    const [result, ...others] = results.get(id) ?? [];
    if (!result) throw badField("input", `No tool output found for function call ${id}.`);
    if (others.length > 0) results.set(id, others);
    else results.delete(id);
    messages.push({ role: "tool", toolCallId: id, content: result.value });
  }
}
