import { Agent } from "node:http";
import { createRequire } from "node:module";
import { toError } from "../core/errors.ts";
import type { Logger } from "../ports.ts";
import { once } from "./once.ts";

const require = createRequire(import.meta.url);

type TraceModule = typeof import("@opentelemetry/exporter-trace-otlp-http");
type MetricModule = typeof import("@opentelemetry/exporter-metrics-otlp-http");
type Config = NonNullable<ConstructorParameters<MetricModule["OTLPMetricExporter"]>[0]>;
type SpanExporter = InstanceType<TraceModule["OTLPTraceExporter"]>;
type MetricExporter = InstanceType<MetricModule["OTLPMetricExporter"]>;
type Report = Parameters<SpanExporter["export"]>[1];

/** What exporters of all kinds can do. */
type Exporter<Batch> = {
  export(batch: Batch, report: Report): void;
  forceFlush(): Promise<void>;
  shutdown(): Promise<void>;
};

/** Result codes of the SDK's exporters. */
const failed = 1;

export const protocols = ["http/protobuf", "http/json"] as const;
export type Protocol = (typeof protocols)[number];

export type Watched<Batch> = Exporter<Batch> & {
  /** Gives up what is still under way, so that it keeps neither a caller waiting nor the process alive. */
  giveUp(): void;
};
export type WatchedSpanExporter = Watched<Parameters<SpanExporter["export"]>[0]>;
export type WatchedMetricExporter = Watched<Parameters<MetricExporter["export"]>[0]> &
  Pick<MetricExporter, "selectAggregation" | "selectAggregationTemporality">;

/** Where it goes, and where trouble is told. `where`: what the log line calls the collector; no credentials in it. */
type Target = { protocol: Protocol; where: URL; logger: Logger };

/**
 * The stock OTLP exporter of spans (endpoint, headers, compression and certificates from the standard variables),
 * watched: the first failure is logged in one line, later ones are not, and it can be told to give up.
 */
export function createSpanExporter(target: Target): WatchedSpanExporter {
  // Loaded only here: it takes a tenth of a second.
  const { OTLPTraceExporter }: TraceModule =
    target.protocol === "http/json"
      ? require("@opentelemetry/exporter-trace-otlp-http")
      : require("@opentelemetry/exporter-trace-otlp-proto");
  return watch(
    target,
    (config) => new OTLPTraceExporter(config),
    "traces cannot be delivered; runs go on, spans are lost",
  ).watched;
}

/** The same of metrics. `cumulative`: whatever the environment prefers, since Prometheus reads them too. */
export function createMetricExporter(target: Target, cumulative: boolean): WatchedMetricExporter {
  const http: MetricModule = require("@opentelemetry/exporter-metrics-otlp-http");
  const { OTLPMetricExporter }: Pick<MetricModule, "OTLPMetricExporter"> =
    target.protocol === "http/json" ? http : require("@opentelemetry/exporter-metrics-otlp-proto");
  const preference = cumulative ? { temporalityPreference: http.AggregationTemporalityPreference.CUMULATIVE } : {};
  const { inner, watched } = watch(
    target,
    (config) => new OTLPMetricExporter({ ...config, ...preference }),
    "metrics cannot be delivered; runs go on. A collector that takes none is spared by OTEL_METRICS_EXPORTER=none",
  );
  return {
    ...watched,
    selectAggregation: (type) => inner.selectAggregation(type),
    selectAggregationTemporality: (type) => inner.selectAggregationTemporality(type),
  };
}

function watch<Batch, Inner extends Exporter<Batch>>(
  { where, logger }: Target,
  make: (config: Config) => Inner & Exporter<Batch>,
  trouble: string,
): { inner: Inner; watched: Watched<Batch> } {
  const agent = new Agent({ keepAlive: true });
  let given = false;
  const inner = make({
    // Asked before each try: the way to stop the exporter's own retries.
    headers: async () => {
      if (given) throw new Error("the process is stopping");
      return {};
    },
    // For https the stock agent stays, since it knows the certificates.
    ...(where.protocol === "http:" ? { httpAgentOptions: () => agent } : {}),
  });
  const underWay = new Set<Report>();
  const tell = once((error: unknown) => logger.warn({ collector: where.origin, error: describe(error) }, trouble));
  const watched: Watched<Batch> = {
    export(batch, report) {
      underWay.add(report);
      inner.export(batch, (result) => {
        if (result.code === failed && !given) tell(result.error);
        if (underWay.delete(report)) report(result);
      });
    },
    forceFlush: () => inner.forceFlush(),
    shutdown: () => inner.shutdown(),
    giveUp() {
      given = true;
      agent.destroy();
      for (const report of underWay) report({ code: failed, error: new Error("given up") });
      underWay.clear();
    },
  };
  return { inner, watched };
}

/** The code of a network error or the status of an answer; a collector's answer body is not repeated. */
function describe(thrown: unknown): string {
  const error = toError(thrown);
  const code = "code" in error ? error.code : undefined;
  return typeof code === "string" || typeof code === "number" ? String(code) : error.message;
}
