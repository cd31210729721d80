import { expect, test } from "vitest";
import { metrics } from "../../src/telemetry/metric-names.ts";
import { labels, type MetricSpec, prometheusName } from "../../src/telemetry/metric-spec.ts";

// Dashboards and alerts of others are built on these: a change here is a release note.

const all: MetricSpec[] = Object.values(metrics);

test("every name, its kind and its unit", () => {
  expect(all.map(({ name, kind, unit }) => `${name} ${kind} ${unit}`).sort()).toEqual([
    "drover.approval.duration histogram s",
    "drover.breaker.open gauge 1",
    "drover.breaker.openings counter {opening}",
    "drover.commit.conflicts counter {commit}",
    "drover.cost counter USD",
    "drover.gate.calls gauge {call}",
    "drover.http.watchers level {watcher}",
    "drover.owing.oldest_age gauge s",
    "drover.owing.runs gauge {run}",
    "drover.queue.oldest_age gauge s",
    "drover.queue.steps gauge {step}",
    "drover.queue.workers gauge {worker}",
    "drover.redis.clients gauge {client}",
    "drover.redis.memory.limit gauge By",
    "drover.redis.memory.used gauge By",
    "drover.redis.round_trip gauge s",
    "drover.run.ended counter {run}",
    "drover.run.rejected counter {run}",
    "drover.run.removed counter {run}",
    "drover.run.started counter {run}",
    "drover.runs gauge {run}",
    "drover.step.crashes counter {step}",
    "drover.step.held counter {step}",
    "drover.step.locks_lost counter {step}",
    "drover.step.overhead histogram s",
    "drover.step.queue_wait histogram s",
    "drover.step.redeliveries counter {step}",
    "drover.sweep.repairs counter {step}",
    "drover.workers gauge {worker}",
    "gen_ai.client.inference.duration histogram s",
    "gen_ai.client.inference.operation.input_tokens histogram {token}",
    "gen_ai.client.inference.operation.output_tokens histogram {token}",
    "gen_ai.client.inference.time_to_first_chunk histogram s",
    "gen_ai.client.inference.usage.cache_read.input_tokens counter {token}",
    "gen_ai.client.inference.usage.input_tokens counter {token}",
    "gen_ai.client.inference.usage.output_tokens counter {token}",
    "gen_ai.execute_tool.duration histogram s",
    "gen_ai.invoke_agent.duration histogram s",
    "gen_ai.invoke_agent.inference_calls histogram {inference_call}",
    "http.server.request.duration histogram s",
    "nodejs.eventloop.delay.max gauge s",
    "nodejs.eventloop.delay.p50 gauge s",
    "nodejs.eventloop.delay.p99 gauge s",
    "process.cpu.time counter s",
    "process.memory.usage gauge By",
  ]);
});

test("every label, and the labels of each metric are among them", () => {
  expect(Object.values(labels).sort()).toEqual([
    "cpu.mode",
    "drover.approval.decision",
    "drover.gate.kind",
    "drover.gate.name",
    "drover.gate.state",
    "drover.hold.reason",
    "drover.queue",
    "drover.queue.state",
    "drover.status",
    "drover.step.kind",
    "drover.stop_reason",
    "error.type",
    "gen_ai.agent.name",
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.token.modality",
    "gen_ai.tool.name",
    "gen_ai.tool.type",
    "http.request.method",
    "http.response.status_code",
    "http.route",
    "server.address",
    "server.port",
    "url.scheme",
  ]);
  const known = new Set<string>(Object.values(labels));
  expect(all.flatMap((metric) => metric.labels.filter((label) => !known.has(label)))).toEqual([]);
});

test("buckets are those of the conventions where they say any, and ascend", () => {
  expect(metrics.inferenceDuration.buckets).toEqual([
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
  ]);
  expect(metrics.callInputTokens.buckets).toEqual([
    1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864,
  ]);
  expect(metrics.requestDuration.buckets).toEqual([
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
  ]);
  for (const { buckets = [] } of all) expect(buckets).toEqual([...buckets].sort((a, b) => a - b));
});

test("names in Prometheus are told apart", () => {
  const names = all.map(prometheusName);
  expect(new Set(names).size).toBe(names.length);
  expect(names).toContain("drover_run_ended_total");
  expect(names).toContain("gen_ai_client_inference_usage_input_tokens_total");
});
