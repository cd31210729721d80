import type { Content, Extra, Message, ToolCall } from "./message.ts";
import { toCallId } from "./message.ts";
import { parseArguments } from "./reply-arguments.ts";
import { makeToolCallId } from "./reply-ids.ts";
import { resolveToolName } from "./reply-names.ts";
import { answerTextOf } from "./reply-text.ts";
import { findTextCalls } from "./reply-text-calls.ts";

/** What a model said, as it said it: ids may be missing, names wrong, arguments no JSON. */
export type ModelReply = {
  content: Content | null;
  toolCalls: ModelCall[];
  refusal?: string | undefined;
  extra?: Extra | undefined;
};
export type ModelCall = { id?: string | undefined; name: string; arguments: string; extra?: Extra | undefined };

/**
 * - `turn`: the turn that this reply answers, from 1;
 * - `offered`: names of the tools that were offered;
 * - `usedIds`: provider ids of the run's earlier calls, see `usedToolCallIds`;
 * - `seed`: made into ids where the provider gave none; the run's id will do;
 * - `fits`: whether a tool would take these arguments. A call that is merely written into the text counts only if it
 *   does; without it any object fits.
 */
export type ReplyContext = {
  reply: ModelReply;
  finishReason: string;
  turn: number;
  offered: readonly string[];
  usedIds: ReadonlySet<string>;
  seed: string;
  fits?: ((call: { name: string; arguments: string }) => boolean) | undefined;
};

/** A call as it will be recorded; `problem` is what the model is told instead of a result. */
export type InterpretedCall = { call: ToolCall; problem?: string | undefined };

/**
 * An answer to keep, or a failed attempt of which nothing is kept.
 *
 * In an answer every call has a unique `callId` and `id` and arguments that parse to a JSON object. One with a `problem`
 * must not be run but settled with that text: its arguments could not be read and are recorded as `{}`. A call of a tool
 * that was not offered keeps its name and is the tool caller's to refuse.
 */
export type InterpretedReply =
  | {
      type: "answer";
      content: Content | null;
      calls: InterpretedCall[];
      refusal?: string | undefined;
      extra?: Extra | undefined;
    }
  | { type: "failed"; class: "transient" | "permanent"; code: string; message: string };

/** Makes sense of a model's reply. Never throws, whatever a server sent. */
export function interpretReply(context: ReplyContext): InterpretedReply {
  const { finishReason } = context;
  const failure = failedFinish(finishReason);
  if (failure) return failure;
  const written = withTextCalls(context);
  if ("unclear" in written) return unclearCall(written.unclear);
  const { reply } = written;
  const rawCalls = reply.toolCalls;
  if (rawCalls.length === 0) {
    if (callReasons.has(finishReason) && !reply.refusal) {
      return failed("transient", "missing_tool_call", "The model said that it calls a tool, but named none.");
    }
    if (answerTextOf(reply) === "") {
      return failed("transient", "empty_answer", "The model answered with neither text nor a tool call.");
    }
  }
  if (rawCalls.length > mostCalls) return tooManyCalls(rawCalls.length);
  return {
    type: "answer",
    content: reply.content === "" ? null : reply.content,
    calls: readCalls(rawCalls, context),
    ...(reply.refusal ? { refusal: reply.refusal } : {}),
    ...(reply.extra ? { extra: reply.extra } : {}),
  };
}

/**
 * The reply without empty entries among its calls; where there are none, those written into its text take their place.
 * Or the name of a tool that its text begins to call in a way that cannot be read.
 */
function withTextCalls({ reply, offered, fits }: ReplyContext): { reply: ModelReply } | { unclear: string } {
  const toolCalls = reply.toolCalls.filter((call) => call.name.trim() !== "" || call.arguments.trim() !== "");
  if (toolCalls.length > 0 || offered.length === 0) return { reply: { ...reply, toolCalls } };
  const found = findTextCalls(reply.content, {
    isTool: (name) => resolveToolName(name, offered) !== undefined,
    isCall: (call) => {
      const name = resolveToolName(call.name, offered);
      const parsed = parseArguments(call.arguments);
      return name !== undefined && parsed.ok && (fits?.({ name, arguments: parsed.text }) ?? true);
    },
  });
  if (found.type === "unclear") return { unclear: found.name };
  if (found.type === "none") return { reply: { ...reply, toolCalls } };
  return { reply: { ...reply, content: found.content, toolCalls: found.calls } };
}

/** What the text says is no answer, and what it calls is not certain: the same is asked again. */
function unclearCall(name: string): InterpretedReply {
  const message = `The model wrote a call of ${name} into its text, not closed or with arguments that do not fit.`;
  return failed("transient", "unclear_call", message);
}

/**
 * More calls than this in one answer are a model that runs in circles. Each open call is a part of the run's head: with ten
 * thousand of them a single run keeps Redis and every worker busy for hours.
 */
const mostCalls = 1_000;

function tooManyCalls(count: number): InterpretedReply {
  const message = `The model asked for ${count} tool calls in one answer; at most ${mostCalls} are taken, and none was run. If this happens again, limit the length of its answers (max_tokens).`;
  return failed("transient", "too_many_calls", message);
}

const cutReasons = new Set([
  ...["length", "max_tokens", "max_output_tokens", "max_length", "model_length", "token_limit"],
  ...["model_context_window_exceeded", "repetition_truncation"],
]);
const filterReasons = new Set([
  ...["content_filter", "content_filtered", "safety", "recitation", "blocklist", "prohibited_content", "spii"],
  ...["sensitive", "guardrail_intervened"],
]);
const brokenReasons = new Set([
  ...["error", "abort", "aborted", "cancelled", "timeout", "network_error", "insufficient_system_resource"],
  ...["malformed_function_call", "unexpected_tool_call", "malformed_tool_use"],
]);

/** Reasons after which nothing of an attempt may be used. Others neither make nor unmake an answer. */
function failedFinish(finishReason: string): InterpretedReply | undefined {
  // Gateways put the name of their own reason before the one of the provider.
  const reason = finishReason.toLowerCase().replace(/^.*[:/]\s*/, "");
  if (cutReasons.has(reason)) {
    return failed(
      "transient",
      "length",
      "The model's answer was cut at its output limit. If this happens again, raise the limit (max_tokens) or ask for less at a time.",
    );
  }
  if (filterReasons.has(reason)) {
    return failed("permanent", "content_filter", "The provider's content filter stopped the model's answer.");
  }
  if (!brokenReasons.has(reason)) return undefined;
  return failed("transient", "model_error", `The model server broke off the answer (${reason}).`);
}

/** Reasons that announce a call. */
const callReasons = new Set(["tool_calls", "tool_call", "tool_use", "function_call"]);

function failed(kind: "transient" | "permanent", code: string, message: string): InterpretedReply {
  return { type: "failed", class: kind, code, message };
}

function readCalls(rawCalls: readonly ModelCall[], context: ReplyContext): InterpretedCall[] {
  const { turn, offered, usedIds, seed } = context;
  // Not a copy of those of the run, which grow with it.
  const own = new Set<string>();
  const isUsed = (id: string): boolean => own.has(id) || usedIds.has(id);
  // Ids of the provider go first, so that a made one never takes the place of one that comes later in the list.
  const kept = rawCalls.map(({ id }) => {
    if (!id?.trim() || isUsed(id)) return undefined;
    own.add(id);
    return id;
  });
  return rawCalls.map((raw, index) => {
    const callId = toCallId(turn, index + 1);
    const id = kept[index] ?? makeToolCallId(`${seed}/${callId}`, isUsed);
    own.add(id);
    const name = resolveToolName(raw.name, offered) ?? (raw.name.trim() || "unnamed");
    const parsed = parseArguments(raw.arguments);
    const call: ToolCall = {
      callId,
      id,
      name,
      arguments: parsed.ok ? parsed.text : "{}",
      ...(raw.extra ? { extra: raw.extra } : {}),
    };
    return parsed.ok ? { call } : { call, problem: describeProblem(name, parsed.problem, raw.arguments) };
  });
}

const shownLength = 400;

function describeProblem(name: string, problem: string, text: string): string {
  const shown = text.length > shownLength ? `${text.slice(0, shownLength)} [cut here]` : text;
  return (
    `The call of ${name} was not run: ${problem} Send the call again with its arguments as one complete JSON object. ` +
    `Received: ${shown}`
  );
}

/** The provider ids that a transcript's calls have taken. */
export function usedToolCallIds(messages: readonly Message[]): Set<string> {
  const ids = new Set<string>();
  for (const message of messages) {
    if (message.role === "assistant") for (const call of message.toolCalls ?? []) ids.add(call.id);
  }
  return ids;
}
