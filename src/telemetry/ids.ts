import { hash, randomBytes } from "node:crypto";
import { isSpanContextValid, type SpanContext, TraceFlags } from "@opentelemetry/api";
import type { RunTrace } from "../core/run.ts";

/**
 * Names a step's span: the same in every process and however often the step is delivered, so that a span is never
 * doubled. `owedAt` tells attempt 1 after a retry of the run from attempt 1 before it.
 */
export type StepName = {
  kind: "model" | "tool" | "verify";
  turn: number;
  attempt: number;
  callId?: string | undefined;
  owedAt: number;
};

/** A step's id is wanted when it begins and when it ends. */
const idsKept = 1_000;
const known = new Map<string, string>();

/** The first 8 bytes of the SHA-256 of the parts, as 16 hex digits, never all zero (which means "no span"). */
export function deriveSpanId(...parts: (string | number)[]): string {
  const text = JSON.stringify(parts);
  const found = known.get(text);
  if (found !== undefined) return found;
  const digits = hash("sha256", text, "hex").slice(0, 16);
  const id = digits === "0".repeat(16) ? "0000000000000001" : digits;
  if (known.size >= idsKept) known.clear();
  known.set(text, id);
  return id;
}

export function stepSpanId(runId: string, step: StepName): string {
  const name = step.kind !== "tool" ? [step.turn] : [step.callId ?? step.turn];
  return deriveSpanId(runId, step.kind, ...name, step.attempt, step.owedAt);
}

/**
 * The root's id, reserved when the run is created and used when it ends. A run whose stored root id is another one got
 * its root at the start, from the application's own tracer provider (see `createTelemetry`).
 */
function rootSpanId(traceId: string, runId: string): string {
  return deriveSpanId(traceId, runId, "root");
}

export function isRootReserved(run: { runId: string; trace: RunTrace }): boolean {
  return run.trace.rootSpanId === rootSpanId(run.trace.traceId, run.runId);
}

export function randomTraceId(): string {
  return nonZero(16);
}

export function randomSpanId(): string {
  return nonZero(8);
}

function nonZero(bytes: number): string {
  const id = randomBytes(bytes).toString("hex");
  return /^0+$/.test(id) ? nonZero(bytes) : id;
}

/** The span context that a W3C `traceparent` names; undefined if it is malformed, as the specification asks. */
export function parseTraceparent(traceparent: string | undefined): SpanContext | undefined {
  const match = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/.exec(traceparent ?? "");
  if (!match) return undefined;
  const [, version, traceId = "", spanId = "", flags = "", rest] = match;
  if (version === "ff" || (version === "00" && rest !== undefined)) return undefined;
  const traceFlags = Number.parseInt(flags, 16) & TraceFlags.SAMPLED;
  const context: SpanContext = { traceId, spanId, traceFlags, isRemote: true };
  return isSpanContextValid(context) ? context : undefined;
}

/** Ids for a new run under `parent`, or in a trace of its own. A run without a parent counts as sampled. */
export function reserveTrace(runId: string, parent: SpanContext | undefined): RunTrace {
  const traceId = parent?.traceId ?? randomTraceId();
  const flags = (parent?.traceFlags ?? TraceFlags.SAMPLED) & TraceFlags.SAMPLED;
  const trace: RunTrace = { traceId, rootSpanId: rootSpanId(traceId, runId), flags };
  return parent ? { ...trace, parentSpanId: parent.spanId } : trace;
}
