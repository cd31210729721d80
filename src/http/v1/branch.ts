import type { Message } from "../../core/message.ts";
import type { Run } from "../../core/run.ts";
import { transcriptOf } from "../../core/session.ts";
import { endOf } from "./extent.ts";
import { toEntries } from "./history.ts";
import { toWireCallId } from "./ids.ts";
import type { InputEntry } from "./input.ts";
import { type Asking, readPrevious } from "./plan.ts";
import { readProgress } from "./progress.ts";

/** What was said up to the end of a response, without the instructions it had for itself. */
export async function readHistory(asking: Asking, from: string): Promise<InputEntry[]> {
  const { deps } = asking;
  const kept = await readPrevious(asking, from);
  const { run, state } = await readProgress(deps, kept);
  const messages = await deps.store.readMessages(transcriptOf(run), 0, await endOf(deps.store, run, state.upTo));
  const own = kept.request.instructionsHash === null ? messages : messages.slice(1);
  return toEntries(state.asked.length === 0 ? own : asAsked(own, run, state.asked));
}

/** The last turn as its caller knows it: without answers that others gave, its calls under the names that were told. */
function asAsked(messages: readonly Message[], run: Run, asked: readonly string[]): Message[] {
  const last = messages.findLastIndex(({ role }) => role === "assistant");
  return messages.flatMap((message, index): Message[] => {
    if (index < last) return [message];
    if (message.role === "tool") return asked.includes(message.callId) ? [] : [message];
    if (message.role !== "assistant") return [message];
    const toolCalls = (message.toolCalls ?? []).map((call) =>
      asked.includes(call.callId) ? { ...call, id: toWireCallId(run.runId, call.callId) } : call,
    );
    return [{ ...message, toolCalls }];
  });
}
