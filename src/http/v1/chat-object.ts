import { V1Error } from "./errors.ts";
import type { FunctionCallItem, MessageItem, WireResponse, WireUsage } from "./wire.ts";

// A Response as a chat completion.

export type FinishReason = "stop" | "length" | "tool_calls";

export type ChatAnswer = {
  content: string | null;
  refusal: string | null;
  calls: FunctionCallItem[];
  finishReason: FinishReason;
  usage: Record<string, unknown>;
};

/** @throws V1Error for a run that failed or was cancelled: a chat completion has no field for that */
export function toChatAnswer({ status, output, error, usage }: WireResponse): ChatAnswer {
  if (status === "queued" || status === "in_progress") {
    throw new V1Error(
      503,
      "The server is closing. Send the request again: with the same Idempotency-Key it is the same run.",
    );
  }
  if (status === "failed" || status === "cancelled") {
    const { code = status, message = "The run was cancelled." } = (error ?? {}) as { code?: string; message?: string };
    throw new V1Error(500, message, { code });
  }
  const said = output.find((item): item is MessageItem => item.type === "message")?.content ?? [];
  const calls = output.filter((item): item is FunctionCallItem => item.type === "function_call");
  const texts = said.flatMap((part) => (part.type === "output_text" ? [part.text] : []));
  const refusals = said.flatMap((part) => (part.type === "refusal" ? [part.refusal] : []));
  return {
    content: texts.length === 0 ? null : texts.join(""),
    refusal: refusals[0] ?? null,
    calls,
    finishReason: calls.length > 0 ? "tool_calls" : status === "incomplete" ? "length" : "stop",
    usage: toChatUsage(usage as WireUsage),
  };
}

function toChatUsage(usage: WireUsage): Record<string, unknown> {
  return {
    prompt_tokens: usage.input_tokens,
    completion_tokens: usage.output_tokens,
    total_tokens: usage.total_tokens,
    prompt_tokens_details: { cached_tokens: usage.input_tokens_details.cached_tokens },
    completion_tokens_details: { reasoning_tokens: 0 },
  };
}

export function toCompletion(response: WireResponse): Record<string, unknown> {
  const { content, refusal, calls, finishReason, usage } = toChatAnswer(response);
  const toolCalls = calls.map(toToolCall);
  const message = { role: "assistant", content, refusal, ...(calls.length > 0 ? { tool_calls: toolCalls } : {}) };
  return {
    id: response.id,
    object: "chat.completion",
    created: response.created_at,
    model: response.model,
    choices: [{ index: 0, message, logprobs: null, finish_reason: finishReason }],
    usage,
  };
}

export function toToolCall({ call_id: id, name, arguments: args }: FunctionCallItem): Record<string, unknown> {
  return { id, type: "function", function: { name, arguments: args } };
}
