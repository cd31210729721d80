import { type HrTime, type SpanContext, SpanStatusCode } from "@opentelemetry/api";
import type { ReadableSpan, SpanProcessor } from "@opentelemetry/sdk-trace";
import type { RunTrace } from "../core/run.ts";
import { errorType } from "./attributes.ts";
import type { SpanPlan } from "./spans.ts";

/** Hands a finished span of a sampled run to the exporter. */
export type PutSpan = (plan: SpanPlan, trace: RunTrace) => void;

/** What is the same in all spans of a process. */
export type SpanOrigin = Pick<ReadableSpan, "resource" | "instrumentationScope">;

/**
 * Our spans are over when they are made, and whether they are recorded was decided when their run was created. So they go
 * straight to the processor: a tracer would ask its sampler again, and copy and check each attribute.
 */
export function createDirectSpans(processor: SpanProcessor, origin: SpanOrigin): PutSpan {
  const { resource, instrumentationScope } = origin;
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
      links: (plan.links ?? []).map((link) => ({ context: { ...link, traceFlags } })),
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
