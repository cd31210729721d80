import type { Redactor } from "../core/redact.ts";
import type { Logger, Telemetry } from "../ports.ts";
import { combine } from "./combine.ts";
import { createLateMetrics, startMetrics } from "./metrics-sdk.ts";
import { createNoTelemetry } from "./no-telemetry.ts";
import { isTrue } from "./otlp.ts";
import { startTraces } from "./traces-sdk.ts";

export type StartedTelemetry = {
  telemetry: Telemetry;
  /** All metrics of this process in Prometheus's text format; undefined: they are off, or exported by the application. */
  renderMetrics?: (() => Promise<string>) | undefined;
  /** Sends what is left, for at most 2 s whatever the collector does. Never rejects. */
  shutdown(): Promise<void>;
};

export type TelemetryStart = {
  /** What every text of a span goes through; default: one that knows the usual kinds of secrets. */
  redactor?: Redactor | undefined;
  /** Metrics are to be had in Prometheus's format; default: only if `OTEL_METRICS_EXPORTER` says so. */
  prometheus?: boolean | undefined;
};

/**
 * Starts tracing and metrics as the standard variables say.
 *
 * - The application registered a provider before: spans, or metrics, go there (`createTelemetryOnForeignProvider`).
 * - `OTEL_EXPORTER_OTLP_ENDPOINT` (or `..._TRACES_ENDPOINT`, `..._METRICS_ENDPOINT`) is set: the OpenTelemetry SDK is
 *   loaded and registered, and both are sent over OTLP/HTTP, in batches that honour `OTEL_BSP_*` and every
 *   `OTEL_METRIC_EXPORT_INTERVAL` ms.
 * - `prometheus`, or `OTEL_METRICS_EXPORTER=prometheus`: metrics can be rendered.
 * - None of these, or `OTEL_SDK_DISABLED=true`, or an exporter named `none`: nothing is loaded, sent or logged.
 *
 * Synchronous, so that a run can be started at once; loading the SDK takes about 0.2 s and happens only if it is used.
 *
 * @param env `process.env`, or the `OTEL_*` part of it; the SDK itself reads `process.env`.
 */
export function startTelemetry(
  env: Record<string, string | undefined>,
  logger: Logger,
  { redactor, prometheus }: TelemetryStart = {},
): StartedTelemetry {
  const off: StartedTelemetry = { telemetry: createNoTelemetry(), shutdown: async () => {} };
  if (isTrue(env.OTEL_SDK_DISABLED)) return off;
  const traces = startTraces(env, logger, redactor);
  const metrics = startMetrics(env, logger, { prometheus: prometheus === true });
  return {
    telemetry: combine(traces?.traces ?? off.telemetry, metrics?.metrics ?? createLateMetrics()),
    renderMetrics: metrics?.render,
    async shutdown() {
      await Promise.all([traces?.stop(), metrics?.stop()]);
    },
  };
}
