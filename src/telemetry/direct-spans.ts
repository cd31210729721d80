import { type HrTime, type SpanContext, SpanStatusCode } from "@opentelemetry/api";
import type { ReadableSpan, SpanProcessor } from "@opentelemetry/sdk-trace";
import type { RunTrace } from "../core/run.ts";
import { errorType } from "./attributes.ts";
import type { SpanPlan } from "./spans.ts";

/** Hands a finished span of a sampled run to the exporter. */
export type PutSpan = (plan: SpanPlan, trace: RunTrace) => void;

/** Limits that a tracer would put on attributes. */
const limits = [
  "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
  "OTEL_ATTRIBUTE_COUNT_LIMIT",
  "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
  "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
];

/**
 * Our spans are over when they are made, and whether they are recorded was decided when their run was created. So they go
 * straight to the processor: a tracer would ask its sampler again, and copy and check each attribute, which took as long as
 * all else that a step's span costs.
 *
 * @param like a span of our tracer's, for what is the same in all.
 * @returns undefined where the tracer is needed after all: it records nothing, or the environment limits attributes.
 */
export function createDirectSpans(
  env: Record<string, string | undefined>,
  processor: SpanProcessor,
  like: object,
): PutSpan | undefined {
  if (limits.some((name) => env[name])) return undefined;
  if (!("resource" in like && "instrumentationScope" in like)) return undefined;
  const { resource, instrumentationScope } = like as ReadableSpan;
  return (plan, trace) => {
    const { traceId, flags: traceFlags } = trace;
    const context: SpanContext = { traceId, spanId: plan.spanId, traceFlags };
    const startTime = toHrTime(plan.startedAt);
    const endTime = toHrTime(Math.max(plan.startedAt, plan.endedAt));
    const failed = plan.errorType !== undefined;
    if (failed) Object.assign(plan.attributes, errorType(plan.errorType ?? ""));
    const span: ReadableSpan = {
      name: plan.name,
      kind: plan.kind,
      spanContext: () => context,
      ...(plan.parentSpanId === undefined
        ? {}
        : { parentSpanContext: { traceId, spanId: plan.parentSpanId, traceFlags, isRemote: true } }),
      startTime,
      endTime,
      duration: toHrTime(Math.max(0, plan.endedAt - plan.startedAt)),
      status: { code: failed ? SpanStatusCode.ERROR : SpanStatusCode.UNSET },
      attributes: plan.attributes,
      links: [],
      events: [],
      ended: true,
      resource,
      instrumentationScope,
      droppedAttributesCount: 0,
      droppedEventsCount: 0,
      droppedLinksCount: 0,
    };
    processor.onEnd(span);
  };
}

const toHrTime = (ms: number): HrTime => [Math.floor(ms / 1_000), Math.round((ms % 1_000) * 1_000_000)];
