import { labels, type MetricSpec } from "./metric-spec.ts";

/** Of the HTTP conventions. */
const requestSeconds = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

const own = { of: "process" } as const;
const fleet = { of: "fleet" } as const;

/** How the fleet, its Redis, its servers and its processes are. */
export type FleetMetricKey =
  | "queueSteps"
  | "queueAge"
  | "queueWorkers"
  | "workers"
  | "runs"
  | "owing"
  | "owingAge"
  | "gateCalls"
  | "breakerOpen"
  | "redisMemory"
  | "redisMemoryLimit"
  | "redisClients"
  | "redisRoundTrip"
  | "requestDuration"
  | "watchers"
  | "memory"
  | "cpu"
  | "loopDelayP50"
  | "loopDelayP99"
  | "loopDelayMax";

export const fleetMetrics: Record<FleetMetricKey, MetricSpec> = {
  queueSteps: {
    ...fleet,
    name: "drover.queue.steps",
    kind: "gauge",
    unit: "{step}",
    description: "Steps in a queue: waiting for a worker, active, or delayed.",
    labels: [labels.queue, labels.queueState],
  },
  queueAge: {
    ...fleet,
    name: "drover.queue.oldest_age",
    kind: "gauge",
    unit: "s",
    description: "How long the step that waits longest could have been taken; 0 if none waits. Scale by this.",
    labels: [labels.queue],
  },
  queueWorkers: {
    ...fleet,
    name: "drover.queue.workers",
    kind: "gauge",
    unit: "{worker}",
    description: "Worker processes that serve a queue.",
    labels: [labels.queue],
  },
  workers: {
    ...fleet,
    name: "drover.workers",
    kind: "gauge",
    unit: "{worker}",
    description: "Worker processes that live.",
    labels: [],
  },
  runs: {
    ...fleet,
    name: "drover.runs",
    kind: "gauge",
    unit: "{run}",
    description: "Runs that are kept, by status.",
    labels: [labels.status],
  },
  owing: {
    ...fleet,
    name: "drover.owing.runs",
    kind: "gauge",
    unit: "{run}",
    description: "Runs that owe a step.",
    labels: [],
  },
  owingAge: {
    ...fleet,
    name: "drover.owing.oldest_age",
    kind: "gauge",
    unit: "s",
    description: "Since when the run that has owed a step for longest owes it; 0 if none does.",
    labels: [],
  },
  gateCalls: {
    ...fleet,
    name: "drover.gate.calls",
    kind: "gauge",
    unit: "{call}",
    description: "Calls under a limit of the whole fleet: inside, or waiting for a place.",
    labels: [labels.gateKind, labels.gate, labels.gateState],
  },
  breakerOpen: {
    ...fleet,
    name: "drover.breaker.open",
    kind: "gauge",
    unit: "1",
    description: "1 while a tool is switched off because it failed too often, else 0.",
    labels: [labels.tool],
  },
  redisMemory: {
    ...fleet,
    name: "drover.redis.memory.used",
    kind: "gauge",
    unit: "By",
    description: "Memory that Redis uses.",
    labels: [],
  },
  redisMemoryLimit: {
    ...fleet,
    name: "drover.redis.memory.limit",
    kind: "gauge",
    unit: "By",
    description: "Memory that Redis may use (maxmemory); not there without a limit.",
    labels: [],
  },
  redisClients: {
    ...fleet,
    name: "drover.redis.clients",
    kind: "gauge",
    unit: "{client}",
    description: "Connections to Redis.",
    labels: [],
  },
  redisRoundTrip: {
    ...fleet,
    name: "drover.redis.round_trip",
    kind: "gauge",
    unit: "s",
    description: "One round trip to Redis.",
    labels: [],
  },
  requestDuration: {
    ...own,
    name: "http.server.request.duration",
    kind: "histogram",
    unit: "s",
    description: "How long the server took to answer a request; of a stream, until its head.",
    labels: [labels.method, labels.route, labels.statusCode, labels.scheme, labels.error],
    buckets: requestSeconds,
  },
  watchers: {
    ...own,
    name: "drover.http.watchers",
    kind: "level",
    unit: "{watcher}",
    description: "Clients that follow runs over HTTP.",
    labels: [],
  },
  memory: {
    ...own,
    name: "process.memory.usage",
    kind: "gauge",
    unit: "By",
    description: "Physical memory of the process.",
    labels: [],
  },
  cpu: {
    ...own,
    name: "process.cpu.time",
    kind: "counter",
    unit: "s",
    description: "Processor time of the process.",
    labels: [labels.cpuMode],
  },
  loopDelayP50: {
    ...own,
    name: "nodejs.eventloop.delay.p50",
    kind: "gauge",
    unit: "s",
    description: "Median delay of the event loop since the last look.",
    labels: [],
  },
  loopDelayP99: {
    ...own,
    name: "nodejs.eventloop.delay.p99",
    kind: "gauge",
    unit: "s",
    description: "99th percentile of the event loop's delay since the last look. Near the lock's 3 s, steps are lost.",
    labels: [],
  },
  loopDelayMax: {
    ...own,
    name: "nodejs.eventloop.delay.max",
    kind: "gauge",
    unit: "s",
    description: "Longest delay of the event loop since the last look.",
    labels: [],
  },
};
