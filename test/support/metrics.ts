import type { DataPoint, Histogram } from "@opentelemetry/sdk-metrics";
import * as sdk from "@opentelemetry/sdk-metrics";
import { expect, onTestFinished } from "vitest";
import type { Telemetry } from "../../src/ports.ts";
import { combine } from "../../src/telemetry/combine.ts";
import { createMetrics } from "../../src/telemetry/metrics.ts";
import { createReader, createRender } from "../../src/telemetry/metrics-sdk.ts";
import { createNoTelemetry } from "../../src/telemetry/no-telemetry.ts";
import { recordingLogger } from "../telemetry/fixtures.ts";

/** A series: the value of a counter or gauge, or count and sum of a histogram. */
export type Series = { name: string; labels: Record<string, unknown>; value: number; count?: number };

export type TestMetrics = {
  telemetry: Telemetry;
  read(): Promise<Series[]>;
  /** In Prometheus's text format. */
  render(): Promise<string>;
  /** Ends them; inside a test its end does. */
  stop(): Promise<void>;
  /** What went wrong, in log lines. */
  lines: { message: string }[];
};

/** Metrics of a real SDK, without traces, in this process. They end with the test. */
export function startMetrics(): TestMetrics {
  const reader = createReader(sdk);
  const provider = new sdk.MeterProvider({ readers: [reader] });
  const logger = recordingLogger();
  const metrics = createMetrics(provider.getMeter("drover"), logger);
  const stop = async (): Promise<void> => {
    metrics.stop();
    await provider.shutdown();
  };
  if (expect.getState().currentTestName !== undefined) onTestFinished(stop);
  return {
    telemetry: combine(createNoTelemetry(), metrics),
    lines: logger.lines,
    stop,
    async read() {
      const { resourceMetrics } = await reader.collect();
      return resourceMetrics.scopeMetrics.flatMap(({ metrics: all }) =>
        all.flatMap(({ descriptor: { name }, dataPoints }) =>
          (dataPoints as DataPoint<number | Histogram>[]).map(({ attributes: labels, value }) =>
            typeof value === "number"
              ? { name, labels, value }
              : { name, labels, value: value.sum ?? 0, count: value.count },
          ),
        ),
      );
    },
    render: createRender(reader),
  };
}

/** The series of a metric, without its name. */
export function seriesOf(all: Series[], name: string): Omit<Series, "name">[] {
  return all.filter((series) => series.name === name).map(({ name: _name, ...rest }) => rest);
}

/** The sum over all series of a metric; of a histogram, of its counts. */
export function total(all: Series[], name: string): number {
  return seriesOf(all, name).reduce((sum, { value, count }) => sum + (count ?? value), 0);
}
