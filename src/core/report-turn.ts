// One turn as it is shown, secrets redacted.

import type { FeedEntry } from "./event.ts";
import type { AssistantMessage, Message, ToolMessage } from "./message.ts";
import type { Redactor } from "./redact.ts";
import type { CallView, MarkView, RequestView, TurnView } from "./report.ts";
import type { TurnEntries } from "./report-split.ts";
import { stepsOf } from "./report-steps.ts";
import { addUsage, isEnded, noUsage, type Run, type Usage } from "./run.ts";

/** What a turn's entries point at, redacted. `results`: by call, as far as there are any. */
export type TurnContent = {
  answer?: AssistantMessage | undefined;
  results: ReadonlyMap<string, ToolMessage>;
  input: Message[];
  request?: RequestView | undefined;
};

/** A message as it may be shown. What is cut for the window is cut after that: a part of a secret is not known as one. */
export function redactShown(message: Message, redactor: Redactor): Message {
  const clean = redactor.value(message);
  if (message.role === "tool" && typeof message.content === "string") {
    return { ...clean, content: redactor.json(message.content) } as ToolMessage;
  }
  if (message.role !== "assistant" || !message.toolCalls) return clean;
  const toolCalls = message.toolCalls.map((call) => ({
    ...redactor.value(call),
    arguments: redactor.json(call.arguments),
  }));
  return { ...clean, toolCalls } as AssistantMessage;
}

/** What happened in a turn. `run`: the head as of its entries. */
export function toTurnView(of: TurnEntries, content: TurnContent, run: Run, redactor: Redactor): TurnView {
  const { turn, startedAt, entries } = of;
  const { answer, request, input } = content;
  const calls = callsOf(of, content, redactor);
  const tools = new Map(calls.map(({ callId, tool }) => [callId, tool]));
  // What befell a call's step does not repeat the name of its tool.
  const steps = stepsOf(of, run).map((step) =>
    step.callId === undefined ? step : { ...step, tool: step.tool ?? tools.get(step.callId) },
  );
  const isOpen = steps.some(({ outcome }) => outcome === "open") || (turn > run.turns && !isEnded(run));
  return {
    turn,
    startedAt,
    ...(isOpen ? {} : { endedAt: of.endedAt }),
    steps: redactor.value(steps),
    marks: redactor.value(entries.flatMap((entry) => toMark(entry) ?? [])),
    ...(request ? { request } : {}),
    ...(answer ? { answer } : {}),
    ...(of.answer ? { finishReason: of.answer.finishReason } : {}),
    calls,
    usage: entries.map(usageOf).reduce(addUsage, noUsage),
    input,
  };
}

function usageOf(entry: FeedEntry): Usage {
  return ("usage" in entry ? entry.usage : undefined) ?? noUsage;
}

function callsOf({ entries }: TurnEntries, { answer, results }: TurnContent, redactor: Redactor): CallView[] {
  const policies = new Map(
    entries.flatMap((entry) => (entry.type === "policy_applied" ? [[entry.callId, redactor.text(entry.policy)]] : [])),
  );
  return (answer?.toolCalls ?? []).map(({ callId, name: tool, arguments: args }): CallView => {
    const policy = policies.get(callId);
    const result = results.get(callId);
    return {
      callId,
      tool,
      arguments: args,
      ...(result ? resultFields(result) : {}),
      ...(policy === undefined ? {} : { policy }),
    };
  });
}

function resultFields({ content, outcome, full, described, decision }: ToolMessage): Partial<CallView> {
  return {
    result: content,
    outcome,
    ...(full ? { cutFrom: full.chars } : {}),
    ...(described === undefined ? {} : { described }),
    ...(decision ? { decision } : {}),
  };
}

function toMark(entry: FeedEntry): MarkView | undefined {
  const { at } = entry;
  switch (entry.type) {
    case "run_rejected":
      return { at, type: "rejected", error: entry.error };
    case "session_queued":
      return { at, type: "session_queued", behind: entry.behind };
    case "session_entered":
      return { at, type: "session_entered" };
    case "run_retried":
      return { at, type: "retried", by: entry.by };
    case "run_ended": {
      const { status, stopReason, error, by } = entry;
      return { at, type: "ended", status, stopReason, ...(error ? { error } : {}), ...(by ? { by } : {}) };
    }
    default:
      return undefined;
  }
}
