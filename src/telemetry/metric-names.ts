import { type FleetMetricKey, fleetMetrics } from "./metric-names-fleet.ts";
import { labels, type MetricSpec } from "./metric-spec.ts";

/** Of the conventions, for calls: 10 ms to 82 s. */
const callSeconds = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/** Runs and people take longer: half a second to a week. */
const longSeconds = [0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 14_400, 86_400, 604_800];
const shortSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];
const waitSeconds = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1_800];
const powersOfFour = Array.from({ length: 14 }, (_, power) => 4 ** power);
const calls = [1, 2, 3, 5, 8, 13, 21, 34, 55, 100, 1_000];

const ofCall = [
  labels.agent,
  labels.operation,
  labels.provider,
  labels.model,
  labels.serverAddress,
  labels.serverPort,
] as const;

const own = { of: "process" } as const;

/** What happens in runs, told by the process in which it was committed; sum over processes. */
type RunMetricKey =
  | "inferenceDuration"
  | "timeToFirstChunk"
  | "inputTokens"
  | "outputTokens"
  | "cachedTokens"
  | "callInputTokens"
  | "callOutputTokens"
  | "runDuration"
  | "runCalls"
  | "toolDuration"
  | "runsStarted"
  | "runsEnded"
  | "runsRejected"
  | "runsRemoved"
  | "cost"
  | "approvalDuration"
  | "stepOverhead"
  | "queueWait"
  | "redeliveries"
  | "locksLost"
  | "held"
  | "crashes"
  | "repairs"
  | "conflicts"
  | "breakerOpenings";

const runMetrics: Record<RunMetricKey, MetricSpec> = {
  inferenceDuration: {
    ...own,
    name: "gen_ai.client.inference.duration",
    kind: "histogram",
    unit: "s",
    description: "How long a model call took, answered or failed.",
    labels: [...ofCall, labels.error],
    buckets: callSeconds,
  },
  timeToFirstChunk: {
    ...own,
    name: "gen_ai.client.inference.time_to_first_chunk",
    kind: "histogram",
    unit: "s",
    description: "From a streamed model call to the first piece of its answer.",
    labels: ofCall,
    buckets: callSeconds,
  },
  inputTokens: {
    ...own,
    name: "gen_ai.client.inference.usage.input_tokens",
    kind: "counter",
    unit: "{token}",
    description: "Tokens sent to models, cached ones included.",
    labels: [...ofCall, labels.modality],
  },
  outputTokens: {
    ...own,
    name: "gen_ai.client.inference.usage.output_tokens",
    kind: "counter",
    unit: "{token}",
    description: "Tokens that models answered with, reasoning included.",
    labels: [...ofCall, labels.modality],
  },
  cachedTokens: {
    ...own,
    name: "gen_ai.client.inference.usage.cache_read.input_tokens",
    kind: "counter",
    unit: "{token}",
    description: "Tokens sent to models that their servers read from a cache.",
    labels: [...ofCall, labels.modality],
  },
  callInputTokens: {
    ...own,
    name: "gen_ai.client.inference.operation.input_tokens",
    kind: "histogram",
    unit: "{token}",
    description: "Tokens sent in one model call.",
    labels: [...ofCall, labels.error, labels.modality],
    buckets: powersOfFour,
  },
  callOutputTokens: {
    ...own,
    name: "gen_ai.client.inference.operation.output_tokens",
    kind: "histogram",
    unit: "{token}",
    description: "Tokens of one model's answer.",
    labels: [...ofCall, labels.error, labels.modality],
    buckets: powersOfFour,
  },
  runDuration: {
    ...own,
    name: "gen_ai.invoke_agent.duration",
    kind: "histogram",
    unit: "s",
    description: "From a run's creation to its end, waits for people included.",
    labels: [labels.operation, labels.agent, labels.error],
    buckets: longSeconds,
  },
  runCalls: {
    ...own,
    name: "gen_ai.invoke_agent.inference_calls",
    kind: "histogram",
    unit: "{inference_call}",
    description: "Model answers of a run that ended.",
    labels: [labels.operation, labels.agent, labels.error],
    buckets: calls,
  },
  toolDuration: {
    ...own,
    name: "gen_ai.execute_tool.duration",
    kind: "histogram",
    unit: "s",
    description: "How long an execution of a tool took; those without an error are its successes.",
    labels: [labels.operation, labels.tool, labels.toolType, labels.agent, labels.error],
    buckets: callSeconds,
  },
  runsStarted: {
    ...own,
    name: "drover.run.started",
    kind: "counter",
    unit: "{run}",
    description: "Runs that were created.",
    labels: [labels.agent],
  },
  runsEnded: {
    ...own,
    name: "drover.run.ended",
    kind: "counter",
    unit: "{run}",
    description: "Runs that ended; one that is retried ends again.",
    labels: [labels.agent, labels.status, labels.stopReason],
  },
  runsRejected: {
    ...own,
    name: "drover.run.rejected",
    kind: "counter",
    unit: "{run}",
    description: "Starts that were refused and left a rejected record.",
    labels: [],
  },
  runsRemoved: {
    ...own,
    name: "drover.run.removed",
    kind: "counter",
    unit: "{run}",
    description: "Runs that were removed because their retention was over, by the status they had ended with.",
    labels: [labels.status],
  },
  cost: {
    ...own,
    name: "drover.cost",
    kind: "counter",
    unit: "USD",
    description: "Money spent on model calls, where a price is known.",
    labels: [labels.agent, labels.model],
  },
  approvalDuration: {
    ...own,
    name: "drover.approval.duration",
    kind: "histogram",
    unit: "s",
    description: "How long a call waited for a person, by what came of it.",
    labels: [labels.decision],
    buckets: longSeconds,
  },
  stepOverhead: {
    ...own,
    name: "drover.step.overhead",
    kind: "histogram",
    unit: "s",
    description: "A step's time that is neither waiting nor the call itself: loading and committing.",
    labels: [labels.step],
    buckets: shortSeconds,
  },
  queueWait: {
    ...own,
    name: "drover.step.queue_wait",
    kind: "histogram",
    unit: "s",
    description: "How long a step that was committed had waited for a worker.",
    labels: [labels.step],
    buckets: waitSeconds,
  },
  redeliveries: {
    ...own,
    name: "drover.step.redeliveries",
    kind: "counter",
    unit: "{step}",
    description: "Steps whose lock expired and that were queued again: their worker was lost, or lost the lock.",
    labels: [labels.queue],
  },
  locksLost: {
    ...own,
    name: "drover.step.locks_lost",
    kind: "counter",
    unit: "{step}",
    description: "Locks of steps that a living worker lost. Redeliveries beyond these are of lost workers.",
    labels: [labels.queue],
  },
  held: {
    ...own,
    name: "drover.step.held",
    kind: "counter",
    unit: "{step}",
    description: "Times that a step was held back, by the reason.",
    labels: [labels.reason],
  },
  crashes: {
    ...own,
    name: "drover.step.crashes",
    kind: "counter",
    unit: "{step}",
    description: "Steps that met a bug of Drover or killed the process they ran alone in.",
    labels: [],
  },
  repairs: {
    ...own,
    name: "drover.sweep.repairs",
    kind: "counter",
    unit: "{step}",
    description: "Steps that a run owed, that were in no queue, and that a sweeper queued.",
    labels: [],
  },
  conflicts: {
    ...own,
    name: "drover.commit.conflicts",
    kind: "counter",
    unit: "{commit}",
    description: "Commits that were refused because another came first; they are applied again.",
    labels: [],
  },
  breakerOpenings: {
    ...own,
    name: "drover.breaker.openings",
    kind: "counter",
    unit: "{opening}",
    description: "Times that a tool was switched off because it failed too often in a row.",
    labels: [labels.tool],
  },
};

export type MetricKey = RunMetricKey | FleetMetricKey;

export const metrics: Record<MetricKey, MetricSpec> = { ...runMetrics, ...fleetMetrics };
