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
export function toChatAnswer(response: WireResponse): ChatAnswer {
  refuseFailed(response);
  const { status, output, usage } = response;
  const said = output.find((item): item is MessageItem => item.type === "message")?.content ?? [];
  const calls = output.filter((item): item is FunctionCallItem => item.type === "function_call");
  const texts = said.flatMap((part) => (part.type === "output_text" ? [part.text] : []));
  const [refusal = null] = said.flatMap((part) => (part.type === "refusal" ? [part.refusal] : []));
  const ended = status === "incomplete" ? "length" : "stop";
  return {
    content: texts.length === 0 ? null : texts.join(""),
    refusal,
    calls,
    finishReason: calls.length > 0 ? "tool_calls" : ended,
    usage: toChatUsage(usage as WireUsage),
  };
}

function refuseFailed({ status, error }: WireResponse): void {
  const { code, message } = (error ?? {}) as { code?: string; message?: string };
  if (status === "failed") throw new V1Error(500, message ?? "The run failed.", { code });
  if (status === "cancelled") throw new V1Error(500, "The run was cancelled.", { code: "cancelled" });
  if (status === "completed" || status === "incomplete") return;
  throw new V1Error(
    503,
    "The server is closing. Send the request again: with the same Idempotency-Key it is the same run.",
  );
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
