import { createRequire } from "node:module";
import { createNoopMeter, type Meter, metrics as metricsApi } from "@opentelemetry/api";
import { toError } from "../core/errors.ts";
import type { Logger } from "../ports.ts";
import { createMetricExporter } from "./exporter.ts";
import { createMetrics, type Metrics } from "./metrics.ts";
import { createShared, type Env, flush, type Otlp, ownResource, readExporters, readOtlp, type Way } from "./otlp.ts";

const require = createRequire(import.meta.url);

type Sdk = typeof import("@opentelemetry/sdk-metrics");
type InstrumentType = import("@opentelemetry/sdk-metrics").InstrumentType;
type ResourceMetrics = import("@opentelemetry/sdk-metrics").ResourceMetrics;
type Reader = InstanceType<Sdk["MetricReader"]>;

export type StartedMetrics = {
  metrics: Metrics;
  /** In Prometheus's text format; undefined where it was not asked for or the application exports by itself. */
  render?: (() => Promise<string>) | undefined;
  stop(): Promise<void>;
};

const shared = createShared<StartedMetrics>();

/** The standard's default, and how long a collection may take. */
const defaultIntervalMs = 60_000;
const longestExportMs = 30_000;
const renderMs = 10_000;

/**
 * Metrics as the standard variables say, or to be read in Prometheus's format; undefined: off, and nothing is loaded.
 *
 * - The application registered a meter provider before: they go there.
 * - An OTLP endpoint is set and `OTEL_METRICS_EXPORTER` does not say otherwise: they are sent there every
 *   `OTEL_METRIC_EXPORT_INTERVAL` ms.
 * - `prometheus`, or `OTEL_METRICS_EXPORTER` names it: they can be rendered.
 *
 * Both ways out share one reader, so that what nobody scrapes does not pile up.
 */
export function startMetrics(
  env: Env,
  logger: Logger,
  { prometheus = false }: { prometheus?: boolean } = {},
): StartedMetrics | undefined {
  if (!shared.current() && isProviderRegistered()) {
    const metrics = createMetrics(metricsApi.getMeter("drover"), logger);
    return { metrics, stop: async () => metrics.stop() };
  }
  const exporters = readExporters(env, "METRICS");
  if (exporters.includes("none")) return undefined;
  const otlp = usable(readOtlp(env, "METRICS", exporters), logger);
  const isRendered = prometheus || exporters.includes("prometheus");
  if (!isRendered && !otlp) return undefined;
  try {
    const { value, release } = shared.use(() => startSdk(env, { logger, otlp, isRendered }));
    return { metrics: value.metrics, render: isRendered ? value.render : undefined, stop: release };
  } catch (thrown) {
    logger.warn({ error: toError(thrown).message }, "the OpenTelemetry SDK could not be started; metrics are off");
    return undefined;
  }
}

/** Counts for whoever of this process has metrics, now or later: a server beside a worker. Nothing until then. */
export function createLateMetrics(): Metrics {
  const now = (): Metrics | undefined => shared.current()?.metrics;
  return {
    recordStart: (run) => now()?.recordStart(run),
    recordStep: (span) => now()?.recordStep(span),
    recordApproval: (run, call) => now()?.recordApproval(run, call),
    recordEnd: (run) => now()?.recordEnd(run),
    recordUsage: (run, usage, definition) => now()?.recordUsage(run, usage, definition),
    count: (of, by) => now()?.count(of, by),
    recordRequest: (request) => now()?.recordRequest(request),
    // Whoever has metrics tells of the fleet.
    observeFleet: () => () => {},
    stop() {},
  };
}

function isProviderRegistered(): boolean {
  return metricsApi.getMeterProvider().getMeter("drover") !== createNoopMeter();
}

function usable(otlp: Otlp, logger: Logger): Way | undefined {
  if (otlp && "problem" in otlp) {
    if (otlp.problem !== "") logger.warn({}, otlp.problem);
    return undefined;
  }
  return otlp;
}

type Ways = { logger: Logger; otlp: Way | undefined; isRendered: boolean };

function startSdk(env: Env, ways: Ways): StartedMetrics {
  const sdk = require("@opentelemetry/sdk-metrics") as Sdk;
  const { reader, giveUp } = openReader(sdk, env, ways);
  const { detectResources, envDetector } =
    require("@opentelemetry/resources") as typeof import("@opentelemetry/resources");
  const resource = ownResource().merge(detectResources({ detectors: [envDetector] }));
  const provider = new sdk.MeterProvider({ resource, readers: [reader] });
  // For metrics of tools and of the application, made after this.
  metricsApi.setGlobalMeterProvider(provider);
  const meter: Meter = provider.getMeter("drover");
  const metrics = createMetrics(meter, ways.logger);
  return {
    metrics,
    render: createRender(reader),
    async stop() {
      await flush([provider], giveUp);
      metrics.stop();
      metricsApi.disable();
    },
  };
}

function openReader(sdk: Sdk, env: Env, { logger, otlp, isRendered }: Ways): { reader: Reader; giveUp: () => void } {
  if (!otlp) return { reader: createReader(sdk), giveUp: () => {} };
  const exporter = createMetricExporter({ protocol: otlp.protocol, where: otlp.endpoint, logger }, isRendered);
  const selectAggregationTemporality: typeof exporter.selectAggregationTemporality = (type) =>
    isGauge(sdk, type) ? sdk.AggregationTemporality.DELTA : exporter.selectAggregationTemporality(type);
  const exportIntervalMillis = positive(env.OTEL_METRIC_EXPORT_INTERVAL) ?? defaultIntervalMs;
  const timeout = positive(env.OTEL_METRIC_EXPORT_TIMEOUT) ?? longestExportMs;
  const reader = new sdk.PeriodicExportingMetricReader({
    exporter: { ...exporter, selectAggregationTemporality },
    exportIntervalMillis,
    exportTimeoutMillis: Math.min(timeout, exportIntervalMillis),
  });
  return { reader, giveUp: exporter.giveUp };
}

/** Read when somebody asks, and then only. */
export function createReader(sdk: Sdk): Reader {
  class ReaderOnDemand extends sdk.MetricReader {
    protected override async onShutdown(): Promise<void> {}
    protected override async onForceFlush(): Promise<void> {}
  }
  const { DELTA, CUMULATIVE } = sdk.AggregationTemporality;
  return new ReaderOnDemand({ aggregationTemporalitySelector: (type) => (isGauge(sdk, type) ? DELTA : CUMULATIVE) });
}

/**
 * A gauge is only what was observed for this reading. As a cumulative value the SDK would repeat for ever what once was
 * observed: a queue that is gone, or the fleet after another process tells of it.
 */
function isGauge(sdk: Sdk, type: InstrumentType): boolean {
  return type === sdk.InstrumentType.OBSERVABLE_GAUGE || type === sdk.InstrumentType.GAUGE;
}

/** Whatever is no number above 0 counts as not set, as the specification asks. */
function positive(text: string | undefined): number | undefined {
  const value = Number(text);
  return Number.isFinite(value) && value > 0 ? value : undefined;
}

/** What the reader reads as Prometheus's text format. */
export function createRender(reader: Reader): () => Promise<string> {
  let serializer: { serialize(metrics: ResourceMetrics): string } | undefined;
  return async () => {
    if (!serializer) {
      const { PrometheusSerializer } =
        require("@opentelemetry/exporter-prometheus") as typeof import("@opentelemetry/exporter-prometheus");
      serializer = new PrometheusSerializer(undefined, false, undefined, false, true);
    }
    const { resourceMetrics } = await reader.collect({ timeoutMillis: renderMs });
    return serializer.serialize(resourceMetrics);
  };
}
