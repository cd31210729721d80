import { type Attributes, SpanKind } from "@opentelemetry/api";
import type { Run } from "../core/run.ts";
import type { OutsideWait, StepSpan } from "../ports.ts";
import * as names from "./attributes.ts";
import { toArguments, toInputMessages, toInstructions, toOutputMessages, toResult } from "./content.ts";
import { deriveSpanId, isRootReserved, stepSpanId } from "./ids.ts";
import type { StepFacts } from "./step-facts.ts";

/** A span as plain data: what is to be emitted, before any SDK is asked. Times are epoch ms. */
export type SpanPlan = {
  name: string;
  kind: SpanKind;
  spanId: string;
  parentSpanId?: string | undefined;
  startedAt: number;
  endedAt: number;
  attributes: Attributes;
  /** Spans of other traces that it goes on from. */
  links?: { traceId: string; spanId: string }[] | undefined;
  /** Set if the operation ended in error; the span's status is then ERROR. */
  errorType?: string | undefined;
};

/** The span of a step: `chat <model>` or `execute_tool <tool>`, right under the run's root. `content`: see `contentOf`. */
export function planStep(step: StepFacts, content: Attributes = {}): SpanPlan {
  const own = toPart(step);
  return {
    kind: own.kind,
    name: own.name,
    spanId: stepSpanId(step.run.runId, stepNameOf(step)),
    parentSpanId: step.run.trace.rootSpanId,
    startedAt: step.startedAt,
    endedAt: step.endedAt,
    errorType: own.errorType,
    attributes: {
      ...own.attributes,
      ...content,
      ...names.ofRun(step.run),
      ...names.ofStep({ ...step, name: own.step }),
      ...names.ofTimes(step),
    },
  };
}

/** The fields of a step's span that name it. */
export function stepNameOf(step: StepFacts): Parameters<typeof stepSpanId>[1] {
  const { turn, attempt, owedAt } = step;
  return step.kind === "tool"
    ? { kind: "tool", turn, attempt, owedAt, callId: step.call.callId }
    : { kind: step.kind, turn, attempt, owedAt };
}

type StepPart = { name: string; kind: SpanKind; step: string; errorType: string | undefined; attributes: Attributes };

function toPart(step: StepFacts): StepPart {
  if (step.kind === "model") return modelPart(step);
  if (step.kind === "tool") return toolPart(step);
  const { turn, errorType } = step;
  return { name: names.spanNames.verify, kind: SpanKind.INTERNAL, step: `verify-${turn}`, errorType, attributes: {} };
}

function modelPart(step: StepFacts & { kind: "model" }): StepPart {
  const { definition, outcome } = step;
  const spent = outcome.usage.inputTokens + outcome.usage.outputTokens > 0;
  return {
    name: `${names.operations.chat} ${definition.model}`,
    kind: SpanKind.CLIENT,
    step: `model-${step.turn}`,
    errorType: step.errorType ?? outcome.failure?.code,
    attributes: {
      ...names.operation(names.operations.chat),
      ...names.ofModel(definition),
      ...(step.server ? names.ofServer(step.server) : {}),
      ...names.ofRequest(definition.request, outcome.dropped),
      ...names.ofResponse(outcome),
      ...(outcome.type === "reply" || spent
        ? { ...names.ofUsage(outcome.usage), ...names.ofCache(outcome.usage) }
        : {}),
    },
  };
}

function toolPart(step: StepFacts & { kind: "tool" }): StepPart {
  const { call, effect, description } = step;
  return {
    name: `${names.operations.tool} ${call.name}`,
    kind: SpanKind.INTERNAL,
    step: call.callId,
    errorType: step.errorType,
    attributes: {
      ...names.operation(names.operations.tool),
      ...names.ofTool({ name: call.name, id: call.id, callId: call.callId, effect, description }),
    },
  };
}

/** What a step's span tells of content. Made only if it is recorded: it grows with the transcript. */
export function contentOf(span: StepSpan): Attributes {
  if (span.kind === "verify") return span.feedback === undefined ? {} : names.ofFeedback(span.feedback);
  if (span.kind === "tool") {
    const { call, result } = span;
    return names.ofToolContent({
      arguments: toArguments(call.arguments),
      result: result === undefined ? undefined : toResult(result),
    });
  }
  const { request, outcome } = span;
  return names.ofModelContent({
    instructions: toInstructions(request.instructions),
    input: toInputMessages(request.messages),
    output: outcome.type === "reply" ? toOutputMessages(outcome.reply, outcome.finishReason) : undefined,
  });
}

/** A mark at the run's start, so that a run that never ends can be found. */
export function planStart(run: Run): SpanPlan {
  return {
    name: names.spanNames.start,
    kind: SpanKind.INTERNAL,
    spanId: deriveSpanId(run.runId, "start"),
    parentSpanId: run.trace.rootSpanId,
    startedAt: run.createdAt,
    endedAt: run.createdAt,
    attributes: names.ofRun(run),
  };
}

/** A wait for a person's decision, or for an answer from outside. */
export function planApproval(run: Run, wait: OutsideWait): SpanPlan {
  const { callId, from, askedAt, decidedAt } = wait;
  return {
    name: from ? names.spanNames.answer : names.spanNames.approval,
    kind: SpanKind.INTERNAL,
    // A call can be asked about twice: before it runs, and when its outcome is unknown.
    spanId: deriveSpanId(run.runId, "approval", callId, askedAt),
    parentSpanId: run.trace.rootSpanId,
    startedAt: askedAt,
    endedAt: decidedAt,
    attributes: { ...names.ofRun(run), ...(from ? names.ofAnswer({ ...wait, from }) : names.ofApproval(wait)) },
  };
}

/** The run's root as it began, for a provider that must be given it at once. */
export function planRoot(run: Run): SpanPlan {
  return {
    name: `${names.operations.agent} ${run.agent}`,
    kind: SpanKind.INTERNAL,
    spanId: run.trace.rootSpanId,
    parentSpanId: run.trace.parentSpanId,
    startedAt: run.createdAt,
    endedAt: run.createdAt,
    attributes: { ...names.operation(names.operations.agent), ...names.ofRun(run) },
  };
}

/**
 * The run's root, `invoke_agent <agent>`, with its totals. If the root was emitted before (at the start by an
 * application's own provider, or when the run first failed and was then retried), its totals go into a
 * `drover.run.end` under it instead: a second span with the root's id would spoil the trace.
 */
export function planEnd(run: Run): SpanPlan {
  const endedAt = run.endedAt ?? run.updatedAt;
  const root = planRoot(run);
  const totals = {
    endedAt,
    errorType: run.status === "failed" ? (run.error?.code ?? run.stopReason ?? "_OTHER") : undefined,
    attributes: { ...root.attributes, ...names.ofEnd(run) },
  };
  if (isRootReserved(run) && run.retryLimits === undefined) return { ...root, ...totals };
  return {
    ...root,
    ...totals,
    name: names.spanNames.end,
    spanId: deriveSpanId(run.runId, "end", run.revision),
    parentSpanId: run.trace.rootSpanId,
    attributes: { ...names.ofRun(run), ...names.ofEnd(run) },
  };
}
