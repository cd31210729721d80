import type { Attributes } from "@opentelemetry/api";
import type { Run, Usage } from "../core/run.ts";
import type { ModelFacts, RunFacts } from "./step-facts.ts";

// The one file that knows attribute names. OpenTelemetry GenAI semantic conventions v0.1.0 (on semconv v1.45.0, status
// "development"), from github.com/open-telemetry/semantic-conventions-genai; the names on npm are older ones. What the
// conventions have no name for is under `drover.*`. A test pins every name.

export const operations = { chat: "chat", tool: "execute_tool", agent: "invoke_agent" } as const;
export type Operation = (typeof operations)[keyof typeof operations];

/** Names of the spans that no convention covers. */
export const spanNames = {
  part: "drover.run.part",
  start: "drover.run.start",
  approval: "drover.approval",
  answer: "drover.answer",
  verify: "drover.verify",
  end: "drover.run.end",
} as const;

export const operation = (name: Operation): Attributes => ({ "gen_ai.operation.name": name });

/** What every span of a run carries. A run outside a session has no conversation, and none is made up for it. */
export function ofRun(run: RunFacts): Attributes {
  return {
    "drover.run.id": run.runId,
    "gen_ai.agent.name": run.agent,
    ...(run.dryRun ? { "drover.dry_run": true } : {}),
    ...(run.session === undefined ? {} : { "gen_ai.conversation.id": run.session }),
  };
}

/** `name` is `model-<turn>` or the call's id. */
export const ofStep = (step: { name: string; turn: number; attempt: number }): Attributes => ({
  "drover.step": step.name,
  "drover.turn": step.turn,
  "drover.attempt": step.attempt,
});

/** What holds words of ours alone, a new one in each span: there is nothing to redact in them. */
export const ownWords: ReadonlySet<string> = new Set(["drover.step", "drover.call.id"]);

/** Where a step's time went, in ms. */
export const ofTimes = (times: {
  queueWaitMs: number;
  loadMs: number;
  performMs: number;
  commitMs: number;
}): Attributes => ({
  "drover.queue_wait_ms": times.queueWaitMs,
  "drover.load_ms": times.loadMs,
  "drover.perform_ms": times.performMs,
  "drover.commit_ms": times.commitMs,
});

/** What a refused answer's model was told. Content: recorded only when asked for. */
export const ofFeedback = (feedback: string): Attributes => ({ "drover.verify.feedback": feedback });

export const errorType = (type: string): Attributes => ({ "error.type": type === "" ? "_OTHER" : type });

export const ofServer = (server: { address: string; port: number }): Attributes => ({
  "server.address": server.address,
  "server.port": server.port,
});

export const ofModel = (definition: ModelFacts): Attributes => ({
  "gen_ai.provider.name": definition.provider,
  "gen_ai.request.model": definition.model,
});

/** Request parameters as they were sent: those that the server made us drop are left out. */
export function ofRequest(request: Record<string, unknown>, dropped: string[]): Attributes {
  const sent = (name: string): unknown => (dropped.includes(name) ? undefined : request[name]);
  const attributes: Attributes = {};
  const put = (name: string, value: unknown, fits: (value: never) => boolean): void => {
    if (value !== undefined && fits(value as never)) attributes[name] = value as string;
  };
  put("gen_ai.request.temperature", sent("temperature"), Number.isFinite);
  put("gen_ai.request.top_p", sent("top_p"), Number.isFinite);
  put("gen_ai.request.top_k", sent("top_k"), Number.isInteger);
  put("gen_ai.request.frequency_penalty", sent("frequency_penalty"), Number.isFinite);
  put("gen_ai.request.presence_penalty", sent("presence_penalty"), Number.isFinite);
  put("gen_ai.request.seed", sent("seed"), Number.isInteger);
  put("gen_ai.request.max_tokens", sent("max_completion_tokens") ?? sent("max_tokens"), Number.isInteger);
  put("gen_ai.request.choice.count", sent("n"), (n: unknown) => Number.isInteger(n) && n !== 1);
  const stop = sent("stop");
  put("gen_ai.request.stop_sequences", typeof stop === "string" ? [stop] : stop, isTexts);
  put("gen_ai.request.reasoning.level", sent("reasoning_effort"), isText);
  put("gen_ai.output.type", outputType(sent("response_format")), isText);
  return attributes;
}

const isText = (value: unknown): boolean => typeof value === "string";
const isTexts = (value: unknown): boolean => Array.isArray(value) && value.every(isText);

function outputType(format: unknown): "json" | "text" | undefined {
  if (typeof format !== "object" || format === null || !("type" in format)) return undefined;
  if (format.type === "json_object" || format.type === "json_schema") return "json";
  return format.type === "text" ? "text" : undefined;
}

export type ResponseFacts = {
  finishReason?: string | undefined;
  model?: string | undefined;
  responseId?: string | undefined;
  /** Set only if the answer was streamed. */
  timeToFirstChunkMs?: number | undefined;
};

export function ofResponse(response: ResponseFacts): Attributes {
  const { finishReason, model, responseId, timeToFirstChunkMs } = response;
  return {
    ...(finishReason === undefined ? {} : { "gen_ai.response.finish_reasons": [finishReason] }),
    ...(model === undefined ? {} : { "gen_ai.response.model": model }),
    ...(responseId === undefined ? {} : { "gen_ai.response.id": responseId }),
    ...(timeToFirstChunkMs === undefined
      ? {}
      : {
          "gen_ai.request.stream": true,
          "gen_ai.response.time_to_first_chunk": timeToFirstChunkMs / 1000,
        }),
  };
}

export const ofUsage = (usage: Usage): Attributes => ({
  "gen_ai.usage.input_tokens": usage.inputTokens,
  "gen_ai.usage.output_tokens": usage.outputTokens,
  ...(usage.estimated ? { "drover.usage.estimated": true } : {}),
});

/** Of a model call only: the convention gives a whole run no cache breakdown. */
export const ofCache = (usage: Usage): Attributes =>
  usage.cachedTokens > 0 ? { "gen_ai.usage.cache_read.input_tokens": usage.cachedTokens } : {};

export const ofTool = (tool: {
  name: string;
  id: string;
  callId: string;
  effect: string;
  description?: string | undefined;
}): Attributes => ({
  "gen_ai.tool.name": tool.name,
  "gen_ai.tool.type": "function",
  "gen_ai.tool.call.id": tool.id === "" ? tool.callId : tool.id,
  ...(tool.description ? { "gen_ai.tool.description": tool.description } : {}),
  "drover.call.id": tool.callId,
  "drover.tool.effect": tool.effect,
});

/** `outcome`: answered, denied (declined), expired or cancelled. */
export const ofAnswer = (call: {
  callId: string;
  tool: string;
  from: string;
  decision: string;
  by: string;
}): Attributes => ({
  "gen_ai.tool.name": call.tool,
  "drover.call.id": call.callId,
  "drover.answer.from": call.from,
  "drover.answer.outcome": call.decision,
  "drover.answer.by": call.by,
});

export const ofApproval = (call: { callId: string; tool: string; decision: string; by: string }): Attributes => ({
  "gen_ai.tool.name": call.tool,
  "drover.call.id": call.callId,
  "drover.approval.decision": call.decision,
  "drover.approval.by": call.by,
});

export const ofEnd = (run: Run): Attributes => ({
  ...ofUsage(run.usage),
  "drover.status": run.status,
  "drover.turns": run.turns,
  ...(run.stopReason === undefined ? {} : { "drover.stop_reason": run.stopReason }),
  ...(run.usage.costUsd === undefined ? {} : { "drover.cost_usd": run.usage.costUsd }),
});

/** Content, JSON-encoded since spans in JavaScript hold no objects. Only when asked for. */
export const ofModelContent = (content: { instructions: unknown; input: unknown; output?: unknown }): Attributes => ({
  "gen_ai.system_instructions": JSON.stringify(content.instructions),
  "gen_ai.input.messages": JSON.stringify(content.input),
  ...(content.output === undefined ? {} : { "gen_ai.output.messages": JSON.stringify(content.output) }),
});

export const ofToolContent = (content: { arguments: unknown; result?: unknown }): Attributes => ({
  "gen_ai.tool.call.arguments": JSON.stringify(content.arguments),
  ...(content.result === undefined ? {} : { "gen_ai.tool.call.result": JSON.stringify(content.result) }),
});
