import type { Attributes, Meter } from "@opentelemetry/api";
import type { Run, Usage } from "../core/run.ts";
import type { Count, Logger, RequestFacts, StepSpan, Telemetry } from "../ports.ts";
import { operations } from "./attributes.ts";
import { observeFleet } from "./fleet-metrics.ts";
import { createGuard } from "./guard.ts";
import { createKnown, type Known } from "./known-labels.ts";
import { type MetricKey, metrics } from "./metric-names.ts";
import { labels, type MetricSpec } from "./metric-spec.ts";
import { observeProcess } from "./process-metrics.ts";
import { remember } from "./step-facts.ts";

/** What of telemetry becomes metrics. */
export type Metrics = Omit<Telemetry, "startTrace" | "withStep"> & {
  /** Stops looking at the process. */
  stop(): void;
};

type Put = (value: number, of?: Attributes) => void;
type Instruments = Record<MetricKey, Put>;

/**
 * Records metrics with the application's meter provider or ours. What was committed once is counted once, by the process
 * that committed it: a worker that dies takes along what it has not exported, and no other counts it again.
 *
 * Never throws because of telemetry; the first trouble is logged, once.
 */
export function createMetrics(meter: Meter, logger: Logger): Metrics {
  const sums = createSums();
  const put = createInstruments(meter, sums);
  const known = createKnown();
  const stopProcess = observeProcess(meter, sums.flush);
  const fleet = observeFleet(meter);
  const guard = createGuard(logger, "metrics failed; runs go on without them");
  const recordStep = createStepRecorder(put, known);
  const tokens = createTokenRecorder(put);
  return {
    recordStart: (run) => guard(() => put.runsStarted(1, { [labels.agent]: known.agent(run.agent) })),
    recordStep: (span) => guard(() => recordStep(span)),
    recordApproval: (_run, { from, askedAt, decidedAt, decision }) =>
      guard(() => {
        // How long a program takes for its own tools says nothing of people.
        if (from !== "caller") put.approvalDuration(seconds(decidedAt - askedAt), { [labels.decision]: decision });
      }),
    recordEnd: (run) => guard(() => recordEnd(put, known, run)),
    recordUsage: (run, usage, definition) => guard(() => tokens(usage, ofModel(run.agent, definition))),
    count: (of, by = 1) => guard(() => countOne(put, of, by)),
    recordRequest: (request) => guard(() => recordRequest(put, request)),
    observeFleet: (read) => guard(() => fleet.add(read)) ?? ((): void => {}),
    stop() {
      sums.flush();
      stopProcess();
      fleet.stop();
    },
  };
}

const seconds = (ms: number): number => Math.max(0, ms) / 1_000;

function createInstruments(meter: Meter, sums: Sums): Instruments {
  const entries = Object.entries<MetricSpec>(metrics)
    .filter(([, { kind, of }]) => kind !== "gauge" && of === "process")
    .map(([key, spec]) => [key, createPut(meter, spec, sums)]);
  // What is observed rather than put has no entry, and nobody here puts it.
  return Object.fromEntries(entries) as Instruments;
}

/** What was added since metrics were last collected: told then, in one go, since each telling costs a microsecond. */
type Sums = { of(add: Put): Put; flush(): void };

/** Label objects that are not shared fill this sooner. */
const sumsKept = 500;

function createSums(): Sums {
  const parts: { add: Put; sums: Map<Attributes | undefined, number> }[] = [];
  const flush = (): void => {
    for (const { add, sums } of parts) {
      for (const [of, value] of sums) add(value, of);
      sums.clear();
    }
  };
  return {
    flush,
    of(add) {
      const sums = new Map<Attributes | undefined, number>();
      parts.push({ add, sums });
      return (value, of) => {
        sums.set(of, (sums.get(of) ?? 0) + value);
        if (sums.size >= sumsKept) flush();
      };
    },
  };
}

function createPut(meter: Meter, { name, kind, unit, description, buckets }: MetricSpec, sums: Sums): Put {
  if (kind === "histogram") {
    const advice = buckets ? { explicitBucketBoundaries: [...buckets] } : {};
    const histogram = meter.createHistogram(name, { unit, description, advice });
    return (value, of) => histogram.record(value, of);
  }
  const make = kind === "counter" ? meter.createCounter : meter.createUpDownCounter;
  const counter = make.call(meter, name, { unit, description });
  return sums.of((value, of) => counter.add(value, of));
}

type Called = { provider: string; model: string; server?: { address: string; port: number } | undefined };

function ofModel(agent: string, { provider, model, server }: Called): Attributes {
  return {
    [labels.agent]: agent,
    [labels.operation]: operations.chat,
    [labels.provider]: provider,
    [labels.model]: model,
    ...(server ? { [labels.serverAddress]: server.address, [labels.serverPort]: server.port } : {}),
  };
}

const ofError = (type: string | undefined): Attributes => (type === undefined ? {} : { [labels.error]: type });

/** Tokens are not told apart by what they stand for: no server of this API says so reliably. */
const modality: Attributes = { [labels.modality]: "unknown" };

function createTokenRecorder(put: Instruments): (usage: Usage, of: Attributes) => void {
  const withModality = remember((of: Attributes) => ({ ...of, ...modality }));
  const ofCost = remember((of: Attributes) => ({ [labels.agent]: of[labels.agent], [labels.model]: of[labels.model] }));
  return ({ inputTokens, outputTokens, cachedTokens, costUsd = 0 }, of) => {
    const told = withModality(of);
    if (inputTokens > 0) put.inputTokens(inputTokens, told);
    if (outputTokens > 0) put.outputTokens(outputTokens, told);
    if (cachedTokens > 0) put.cachedTokens(cachedTokens, told);
    if (costUsd > 0) put.cost(costUsd, ofCost(of));
  };
}

/** The labels of a step's metrics, by what tells steps apart. */
function createLabelCache(): (key: string, make: () => Attributes) => Attributes {
  const cached = new Map<string, Attributes>();
  return (key, make) => {
    const found = cached.get(key);
    if (found) return found;
    if (cached.size >= 1_000) cached.clear();
    const value = make();
    cached.set(key, value);
    return value;
  };
}

function createStepRecorder(put: Instruments, known: Known): (span: StepSpan) => void {
  const cache = createLabelCache();
  const tokens = createTokenRecorder(put);
  const withModality = remember((of: Attributes) => ({ ...of, ...modality }));

  function model(span: StepSpan & { kind: "model" }): void {
    const { definition, server, outcome } = span;
    const agent = known.own(span.run.agent);
    const error = known.error(span.errorType ?? (outcome.type === "failure" ? outcome.failure.code : undefined));
    const place = [agent, definition.provider, definition.model, server?.address, server?.port].join("\n");
    const of = cache(place, () => ofModel(agent, { ...definition, server }));
    const withError = error === undefined ? of : cache(`${place}\n${error}`, () => ({ ...of, ...ofError(error) }));
    put.inferenceDuration(seconds(span.performMs), withError);
    if (outcome.timeToFirstChunkMs !== undefined) put.timeToFirstChunk(seconds(outcome.timeToFirstChunkMs), of);
    const { usage } = outcome;
    tokens(usage, of);
    if (usage.inputTokens + usage.outputTokens === 0) return;
    put.callInputTokens(usage.inputTokens, withModality(withError));
    put.callOutputTokens(usage.outputTokens, withModality(withError));
  }

  function tool(span: StepSpan & { kind: "tool" }): void {
    const agent = known.own(span.run.agent);
    const error = known.error(span.errorType);
    const of = cache(`tool\n${agent}\n${span.call.name}\n${error}`, () => ({
      [labels.operation]: operations.tool,
      [labels.tool]: span.call.name,
      [labels.toolType]: "function",
      [labels.agent]: agent,
      ...ofError(error),
    }));
    put.toolDuration(seconds(span.performMs), of);
  }

  return (span) => {
    if (span.kind === "model") model(span);
    else if (span.kind === "tool") tool(span);
    const of = cache(span.kind, () => ({ [labels.step]: span.kind }));
    put.stepOverhead(seconds(span.loadMs + span.commitMs), of);
    put.queueWait(seconds(span.queueWaitMs), of);
  };
}

function recordEnd(put: Instruments, known: Known, run: Run): void {
  const agent = { [labels.agent]: known.agent(run.agent) };
  const failed = run.status === "failed" ? known.error(run.error?.code ?? run.stopReason) : undefined;
  const of = { [labels.operation]: operations.agent, ...agent, ...ofError(failed) };
  put.runsEnded(1, { ...agent, [labels.status]: run.status, [labels.stopReason]: run.stopReason });
  put.runDuration(seconds((run.endedAt ?? run.updatedAt) - run.createdAt), of);
  put.runCalls(run.turns, of);
}

const counted = {
  commit_conflict: "conflicts",
  sweep_repair: "repairs",
  run_rejected: "runsRejected",
  run_removed: "runsRemoved",
  step_crashed: "crashes",
  watcher: "watchers",
  redelivery: "redeliveries",
  lock_lost: "locksLost",
  step_held: "held",
  breaker_opened: "breakerOpenings",
} as const satisfies Record<Count["what"], MetricKey>;

function countOne(put: Instruments, of: Count, by: number): void {
  const told: Attributes = {};
  if ("queue" in of) told[labels.queue] = of.queue;
  if ("reason" in of) told[labels.reason] = of.reason;
  if ("status" in of) told[labels.status] = of.status;
  if ("tool" in of) told[labels.tool] = of.tool;
  put[counted[of.what]](by, told);
}

const methods = new Set(["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"]);

function recordRequest(put: Instruments, { method, route, status, scheme = "http", durationMs }: RequestFacts): void {
  put.requestDuration(seconds(durationMs), {
    [labels.method]: methods.has(method) ? method : "_OTHER",
    ...(route === undefined ? {} : { [labels.route]: route }),
    [labels.statusCode]: status,
    [labels.scheme]: scheme,
    ...ofError(status >= 500 ? String(status) : undefined),
  });
}
