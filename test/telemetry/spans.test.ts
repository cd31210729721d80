import { SpanKind } from "@opentelemetry/api";
import { describe, expect, test } from "vitest";
import { createNoTelemetry } from "../../src/telemetry/no-telemetry.ts";
import { contentOf, planEnd, planStep } from "../../src/telemetry/spans.ts";
import { aRun, canary, createdAt, ended, modelSpan, toolSpan } from "./fixtures.ts";

const run = aRun(createNoTelemetry());
const failure = { class: "transient", code: "http_503", message: canary } as const;
const nothing = { inputTokens: 0, outputTokens: 0, cachedTokens: 0 };

describe("a model call", () => {
  test("values", () => {
    const plan = planStep(modelSpan(run));
    expect(plan).toMatchObject({ name: "chat qwen3-32b", kind: SpanKind.CLIENT, parentSpanId: run.trace.rootSpanId });
    expect(plan.attributes).toMatchObject({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "openai",
      "gen_ai.request.max_tokens": 300,
      "gen_ai.request.stop_sequences": ["END"],
      "gen_ai.output.type": "json",
      "gen_ai.response.finish_reasons": ["tool_calls"],
      "gen_ai.response.time_to_first_chunk": 0.25,
      "gen_ai.usage.cache_read.input_tokens": 40,
      "drover.step": "model-1",
      "drover.queue_wait_ms": 11,
    });
    expect(plan.attributes).not.toHaveProperty("gen_ai.conversation.id");
  });

  test("fields that the server refused, and values that are no parameters, are left out", () => {
    const span = modelSpan(run);
    const odd = {
      ...span.definition,
      request: { temperature: "hot", seed: 7, n: 1, top_p: 0.5, response_format: { type: "text" } },
    };
    const { attributes } = planStep({ ...span, definition: odd, outcome: { ...span.outcome, dropped: ["seed"] } });
    const parameters = Object.entries(attributes).filter(([key]) => /\.request\.|output\.type/.test(key));
    expect(Object.fromEntries(parameters)).toEqual({
      "gen_ai.request.model": "qwen3-32b",
      "gen_ai.request.top_p": 0.5,
      "gen_ai.request.stream": true,
      "gen_ai.output.type": "text",
    });
  });

  test("that failed names a class of error, never its message, and no usage if none was spent", () => {
    const plan = planStep(modelSpan(run, { outcome: { type: "failure", failure, usage: nothing, dropped: [] } }));
    expect(plan.errorType).toBe("http_503");
    expect(JSON.stringify(plan)).not.toContain(canary);
    expect(plan.attributes).not.toHaveProperty("gen_ai.usage.input_tokens");
  });

  test("that failed after spending tokens counts them", () => {
    const usage = { ...nothing, inputTokens: 5 };
    const plan = planStep(
      modelSpan(run, { outcome: { type: "failure", failure, usage, dropped: [] }, errorType: "cut" }),
    );
    expect(plan.errorType).toBe("cut");
    expect(plan.attributes).toMatchObject({ "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 0 });
  });
});

describe("content", () => {
  test("is absent unless asked for", () => {
    const plans = [planStep(modelSpan(run)), planStep(toolSpan(run)), planEnd(ended(run))];
    expect(JSON.stringify(plans)).not.toContain(canary);
  });

  test("has the shapes of the conventions when it is", () => {
    const parsed = (attributes: object, name: string): unknown =>
      JSON.parse((attributes as Record<string, string>)[name] ?? "");
    const chat = planStep(modelSpan(run), contentOf(modelSpan(run))).attributes;
    expect(parsed(chat, "gen_ai.system_instructions")).toEqual([{ type: "text", content: `be kind ${canary}` }]);
    expect(parsed(chat, "gen_ai.input.messages")).toEqual([
      { role: "user", parts: [{ type: "text", content: canary }] },
    ]);
    expect(parsed(chat, "gen_ai.output.messages")).toEqual([
      {
        role: "assistant",
        parts: [
          { type: "text", content: canary },
          { type: "tool_call", id: "call_1", name: "refund", arguments: { id: "42" } },
        ],
        finish_reason: "tool_call",
      },
    ]);
    const tool = planStep(toolSpan(run), contentOf(toolSpan(run))).attributes;
    expect(parsed(tool, "gen_ai.tool.call.arguments")).toEqual({ why: canary });
    expect(parsed(tool, "gen_ai.tool.call.result")).toEqual({ said: canary });
  });
});

describe("the end of a run", () => {
  test("is the root, over the whole life of the run", () => {
    expect(planEnd(ended(run))).toMatchObject({
      name: "invoke_agent support",
      spanId: run.trace.rootSpanId,
      startedAt: createdAt,
      endedAt: createdAt + 9_000,
      errorType: undefined,
      attributes: { "gen_ai.usage.input_tokens": 90, "drover.stop_reason": "answered", "drover.turns": 2 },
    });
  });

  test("of a failed run names the error; of a cancelled one it is no error", () => {
    const error = { code: "bad_key", message: canary };
    expect(planEnd(ended(run, { status: "failed", stopReason: "model_error", error })).errorType).toBe("bad_key");
    expect(planEnd(ended(run, { status: "failed", stopReason: "max_turns" })).errorType).toBe("max_turns");
    expect(planEnd(ended(run, { status: "cancelled", stopReason: "cancelled" })).errorType).toBeUndefined();
  });

  test("of a run that was retried hangs under the root that its first end emitted", () => {
    const [second, third] = [5, 9].map((revision) => planEnd(ended(run, { retryLimits: {}, revision })));
    expect(second).toMatchObject({ name: "drover.run.end", parentSpanId: run.trace.rootSpanId });
    expect(new Set([run.trace.rootSpanId, second?.spanId, third?.spanId]).size).toBe(3);
  });
});
