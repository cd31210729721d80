import { type Content, type Message, textOf } from "../core/message.ts";
import { dataOf, isAttachment, isTextFile, maxInlinedBytes } from "../core/parts.ts";
import type { Usage } from "../core/run.ts";

/** US dollars per million tokens. `cachedPerMTok` defaults to the price of other input. */
export type Price = {
  inputPerMTok: number;
  outputPerMTok: number;
  cachedPerMTok?: number | undefined;
};

/** Usage as servers tell it; undefined unless both counts can be told. Nulls and nonsense count as not told. */
export function readUsage(raw: unknown): Usage | undefined {
  const usage = asRecord(raw);
  const inputTokens = asCount(usage.prompt_tokens) ?? asCount(usage.input_tokens);
  const total = asCount(usage.total_tokens);
  const rest = inputTokens === undefined || total === undefined ? undefined : asCount(total - inputTokens);
  const outputTokens = asCount(usage.completion_tokens) ?? asCount(usage.output_tokens) ?? rest;
  if (inputTokens === undefined || outputTokens === undefined) return undefined;
  const details = asRecord(usage.prompt_tokens_details ?? usage.input_tokens_details);
  const cached = asCount(details.cached_tokens) ?? asCount(usage.prompt_cache_hit_tokens) ?? 0;
  return { inputTokens, outputTokens, cachedTokens: Math.min(cached, inputTokens) };
}

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function asCount(raw: unknown): number | undefined {
  const value = typeof raw === "string" && /^\d{1,15}$/.test(raw) ? Number(raw) : raw;
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? Math.round(value) : undefined;
}

/** Characters a token has on average; good enough for a count that is marked as estimated. */
const charactersPerToken = 4;

/** Usage counted by us where the server told none: from what was sent and what came back. */
export function estimateUsage(
  sent: { instructions: string; messages: readonly Message[]; tools: readonly unknown[] },
  received: string,
): Usage {
  let characters = sent.instructions.length;
  for (const message of sent.messages) {
    characters += charactersOf(message.content);
    if (message.role === "assistant") {
      for (const call of message.toolCalls ?? []) characters += call.name.length + call.arguments.length;
    }
  }
  if (sent.tools.length > 0) characters += JSON.stringify(sent.tools).length;
  return {
    inputTokens: Math.ceil(characters / charactersPerToken),
    outputTokens: Math.ceil(received.length / charactersPerToken),
    cachedTokens: 0,
    estimated: true,
  };
}

/** What an image or another part that is no text takes, about. */
const partTokens = 1_000;

/** Data of parts is no text: it counts by what it is, not by its length. */
function charactersOf(content: Content | null): number {
  if (content === null || typeof content === "string") return content?.length ?? 0;
  return content.reduce((sum, part) => {
    if (isTextFile(part)) return sum + Math.min(dataOf(part)?.bytes ?? 0, maxInlinedBytes);
    return sum + (isAttachment(part) ? partTokens * charactersPerToken : textOf([part]).length);
  }, 0);
}

/** The same usage with what it costs, if the price is known. */
export function withCost(usage: Usage, price: Price | undefined): Usage {
  if (!price) return usage;
  const { inputTokens, outputTokens, cachedTokens } = usage;
  const inputCost =
    (inputTokens - cachedTokens) * price.inputPerMTok + cachedTokens * (price.cachedPerMTok ?? price.inputPerMTok);
  return { ...usage, costUsd: (inputCost + outputTokens * price.outputPerMTok) / 1e6 };
}
