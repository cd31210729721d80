import { SpanKind } from "@opentelemetry/api";
import type { Run } from "../core/run.ts";
import type { StepSpan } from "../ports.ts";
import * as names from "./attributes.ts";
import { deriveSpanId } from "./ids.ts";
import type { SpanPlan } from "./spans.ts";

/** Turns of a run in one trace: viewers and stores of traces do not bear tens of thousands of spans in one. */
export const turnsPerTrace = 250;

/**
 * The run as the steps of a turn see it: beyond its first 250 turns, with the ids of a trace of its own for every 250. They
 * derive from the run's, so that every process knows them.
 */
export function inPart(run: Run, turn: number): Run {
  const part = Math.floor((turn - 1) / turnsPerTrace);
  if (part <= 0) return run;
  const { traceId, flags } = run.trace;
  const half = (which: string): string => deriveSpanId(traceId, run.runId, "part", part, which);
  return { ...run, trace: { traceId: half("high") + half("low"), rootSpanId: half("root"), flags } };
}

/** The root of a part's trace, a mark at its beginning that links to the run's root; for the answer that begins it. */
export function planPart(span: StepSpan): SpanPlan | undefined {
  const { run, turn, kind, startedAt } = span;
  const isFirst = turn > 1 && (turn - 1) % turnsPerTrace === 0;
  if (!isFirst || kind !== "model" || span.outcome.type !== "reply") return undefined;
  return {
    name: names.spanNames.part,
    kind: SpanKind.INTERNAL,
    spanId: inPart(run, turn).trace.rootSpanId,
    startedAt,
    endedAt: startedAt,
    attributes: names.ofRun(run),
    links: [{ traceId: run.trace.traceId, spanId: run.trace.rootSpanId }],
  };
}
