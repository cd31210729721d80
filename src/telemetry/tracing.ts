import {
  type Attributes,
  type Context,
  context,
  createContextKey,
  type Link,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import { createRedactor, type Redactor } from "../core/redact.ts";
import type { Run, RunTrace } from "../core/run.ts";
import type { Logger } from "../ports.ts";
import { errorType, operation, operations, ownWords, spanNames } from "./attributes.ts";
import type { Traces } from "./combine.ts";
import { createGuard } from "./guard.ts";
import { reserveTrace, type StepName, stepSpanId } from "./ids.ts";
import { createNoTelemetry, parentOf } from "./no-telemetry.ts";
import { inPart, planPart } from "./parts.ts";
import type { ReservedIds } from "./reserved-ids.ts";
import type { SpanChannel } from "./span-channel.ts";
import { contentOf, planApproval, planEnd, planRoot, planStart, planStep, type SpanPlan, stepNameOf } from "./spans.ts";
import { createFactsMaker } from "./step-facts.ts";

export type TelemetryOptions = {
  tracer: Tracer;
  /** Whether messages, arguments and results are recorded. Default: no. */
  captureContent?: boolean | undefined;
  logger: Logger;
  /** What every text of a span goes through. Default: one that knows the usual kinds of secrets. */
  redactor?: Redactor | undefined;
};

/** Set on the context of a span whose run was found sampled when it was created; samplers must not ask again. */
export const decidedKey: symbol = createContextKey("drover sampling decided");

/**
 * Traces of runs through a tracer provider of our own, whose id generator is `ids`. One trace per run: every step is a
 * child of a root whose id was reserved when the run was created, whichever process runs it, and the process that ends
 * the run emits that root with its true start. Nothing stays open between steps. A run that is ended where telemetry is
 * off (cancelled from there, say) has steps but no root, and a step that a cancel or a lost lock cut off has no span.
 *
 * Never throws because of telemetry; the first trouble is logged, once.
 */
export function createTelemetry(
  options: TelemetryOptions & { ids: ReservedIds; channel?: SpanChannel | undefined },
): Traces {
  const { tracer, ids, channel, redactor = createRedactor(), captureContent = false } = options;
  const guard = createGuard(options.logger, "telemetry failed; runs go on without it");
  const clean = createCleaner(redactor);
  const redact = spanRedactor(redactor, clean);
  const factsOf = createFactsMaker(redactor, clean);
  const emit = (run: Run, plan: () => SpanPlan): void =>
    guard(() => {
      if (!isSampled(run.trace)) return;
      const span = redact(plan());
      if (channel) return channel.put({ type: "plan", plan: span, trace: run.trace });
      const parent = decided(run.trace, span.parentSpanId);
      finish(
        ids.use({ traceId: run.trace.traceId, spanId: span.spanId }, () => start(tracer, span, parent)),
        span,
      );
    });
  return {
    startTrace(runId, traceparent) {
      const reserve = (): RunTrace => {
        const parent = parentOf(traceparent);
        const reserved = reserveTrace(runId, parent);
        // Never ended, so never exported: it is only asked what the sampler decided.
        const probe = ids.use({ traceId: reserved.traceId, spanId: reserved.rootSpanId }, () =>
          tracer.startSpan(operations.agent, { attributes: operation(operations.agent) }, contextUnder(parent)),
        );
        return { ...reserved, flags: probe.spanContext().traceFlags & TraceFlags.SAMPLED };
      };
      return guard(reserve) ?? createNoTelemetry().startTrace(runId, traceparent);
    },
    recordStart: (run) => emit(run, () => planStart(run)),
    withStep: (run, step, fn) => {
      const active = guard(() => contextOf(inPart(run, step.turn).trace, stepSpanId(run.runId, step)));
      return active ? context.with(active, fn) : fn();
    },
    recordStep(given) {
      const span = { ...given, run: inPart(given.run, given.turn) };
      const part = planPart(given);
      if (part) emit(span.run, () => part);
      if (!channel || captureContent)
        emit(span.run, () => planStep(span, captureContent ? contentOf(span) : undefined));
      else guard(() => isSampled(span.run.trace) && channel.put({ type: "step", step: factsOf(span) }));
    },
    recordApproval: (run, call) => emit(run, () => planApproval(run, call)),
    recordEnd: (run) => emit(run, () => planEnd(run)),
  };
}

/**
 * Traces of runs through the application's own tracer provider, registered before Drover was created. Ids cannot be
 * chosen there, so the shape differs: the root is a short `invoke_agent <agent>` emitted at the start, steps hang under
 * it with ids of the provider's choosing, and the end is a `drover.run.end` with the totals. If a run was started by a
 * process without tracing, nobody emitted its root; its end is then an `invoke_agent` beside its steps.
 *
 * A step's span is begun when its user code begins, so that the spans of that code hang under it, and is emitted only
 * if its outcome was committed.
 */
export function createTelemetryOnForeignProvider(options: TelemetryOptions): Traces {
  const { tracer } = options;
  const guard = createGuard(options.logger, "telemetry failed; runs go on without it");
  const { redactor = createRedactor() } = options;
  const redact = spanRedactor(redactor, createCleaner(redactor));
  const roots = createPending();
  const steps = createPending();
  const emit = (run: Run, plan: () => SpanPlan, begun?: Span): void =>
    guard(() => {
      if (!isSampled(run.trace)) return;
      const span = redact(plan());
      finish(begun ? complete(begun, span) : start(tracer, span, contextOf(run.trace, span.parentSpanId)), span);
    });
  return {
    startTrace(runId, traceparent) {
      const reserve = (): RunTrace => {
        const parent = parentOf(traceparent);
        const attributes = operation(operations.agent);
        const root = tracer.startSpan(operations.agent, { attributes }, contextUnder(parent));
        const { traceId, spanId, traceFlags } = root.spanContext();
        roots.put(spanId, root);
        return { ...reserveTrace(runId, parent), traceId, rootSpanId: spanId, flags: traceFlags & TraceFlags.SAMPLED };
      };
      return guard(reserve) ?? createNoTelemetry().startTrace(runId, traceparent);
    },
    recordStart(run) {
      const root = roots.take(run.trace.rootSpanId);
      if (root) emit(run, () => planRoot(run), root);
    },
    withStep: (run, step, fn) => {
      const active = guard(() => {
        const under = contextOf(run.trace, run.trace.rootSpanId);
        const span = tracer.startSpan(...begun(step.kind), under);
        steps.put(keyOf(run, step), span);
        return trace.setSpan(under, span);
      });
      return active ? context.with(active, fn) : fn();
    },
    recordStep: (span) =>
      emit(
        span.run,
        () => planStep(span, options.captureContent ? contentOf(span) : undefined),
        steps.take(keyOf(span.run, stepNameOf(span))),
      ),
    recordApproval: (run, call) => emit(run, () => planApproval(run, call)),
    recordEnd: (run) => emit(run, () => planEnd(run)),
  };
}

/** Name and attributes that a step's span begins with; the rest comes once its outcome is known. */
function begun(kind: StepName["kind"]): [string, { attributes: Attributes }] {
  if (kind === "verify") return [spanNames.verify, { attributes: {} }];
  const name = kind === "model" ? operations.chat : operations.tool;
  return [name, { attributes: operation(name) }];
}

const keyOf = (run: Run, step: StepName): string => `${run.trace.traceId} ${stepSpanId(run.runId, step)}`;

/** The most spans kept open at a time; older ones were most likely given up, and are dropped unseen. */
const pendingKept = 10_000;

function createPending(): { put(key: string, span: Span): void; take(key: string): Span | undefined } {
  const spans = new Map<string, Span>();
  return {
    put(key, span) {
      spans.set(key, span);
      const [oldest] = spans.keys();
      if (spans.size > pendingKept && oldest !== undefined) spans.delete(oldest);
    },
    take(key) {
      const span = spans.get(key);
      spans.delete(key);
      return span;
    },
  };
}

const isSampled = (ids: RunTrace): boolean => (ids.flags & TraceFlags.SAMPLED) !== 0;

/** A context in which the run's span with this id is the active one, without a span being open. */
function contextOf(ids: RunTrace, spanId: string | undefined): Context {
  if (spanId === undefined) return ROOT_CONTEXT;
  const parent: SpanContext = { traceId: ids.traceId, spanId, traceFlags: ids.flags, isRemote: true };
  return trace.setSpanContext(ROOT_CONTEXT, parent);
}

/** The context of a new run: under its producer's span, if there is one. */
const contextUnder = (parent: SpanContext | undefined): Context =>
  parent ? trace.setSpanContext(ROOT_CONTEXT, parent) : ROOT_CONTEXT;

const decided = (ids: RunTrace, parentSpanId: string | undefined): Context =>
  contextOf(ids, parentSpanId).setValue(decidedKey, true);

/** Short values come again in every span of a run or an agent: so many that hold no secret are remembered. */
const rememberedValues = 2_000;
const rememberedLength = 256;

/** Redacts one text, which may be JSON. */
function createCleaner(redactor: Redactor): (text: string) => string {
  const clean = new Set<string>();
  return (text) => {
    if (clean.has(text)) return text;
    const redacted = redactor.json(text);
    if (clean.size >= rememberedValues) clean.clear();
    if (redacted === text && text.length <= rememberedLength) clean.add(text);
    return redacted;
  };
}

/** A span's name, error and attributes as they may be shown; ids and times stay. */
function spanRedactor(redactor: Redactor, clean: (text: string) => string): (plan: SpanPlan) => SpanPlan {
  const redact = (value: Attributes[string]): Attributes[string] => {
    if (typeof value === "string") return clean(value);
    return Array.isArray(value) && typeof value[0] === "string" ? redactor.value(value) : value;
  };
  // In place: a plan is made for one span, and copying its attributes for each would cost as much as making them.
  return (plan) => {
    const { attributes, errorType } = plan;
    for (const name in attributes) if (!ownWords.has(name)) attributes[name] = redact(attributes[name]);
    return { ...plan, name: clean(plan.name), errorType: errorType === undefined ? undefined : clean(errorType) };
  };
}

/** Times go as dates: SDKs before 3 take a number that lies before this process's start for a time since it. */
function start(tracer: Tracer, span: SpanPlan, parent: Context): Span {
  const { name, kind, attributes, links = [] } = span;
  return tracer.startSpan(
    name,
    { kind, attributes, links: links.map(toLink), startTime: new Date(span.startedAt) },
    parent,
  );
}

/** Makes a span that was begun before its plan was known what the plan says. */
function complete(span: Span, plan: SpanPlan): Span {
  span.updateName(plan.name);
  return span.setAttributes(plan.attributes);
}

function finish(span: Span, plan: SpanPlan): void {
  if (plan.errorType !== undefined) {
    span.setAttributes(errorType(plan.errorType));
    span.setStatus({ code: SpanStatusCode.ERROR });
  }
  span.end(new Date(Math.max(plan.startedAt, plan.endedAt)));
}

function toLink(link: { traceId: string; spanId: string }): Link {
  return { context: { ...link, traceFlags: TraceFlags.SAMPLED } };
}
