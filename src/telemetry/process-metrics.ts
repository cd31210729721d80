import { monitorEventLoopDelay } from "node:perf_hooks";
import type { Meter } from "@opentelemetry/api";
import { metrics } from "./metric-names.ts";
import { labels } from "./metric-spec.ts";

const resolutionMs = 20;
const nanosInSecond = 1e9;
const microsInSecond = 1e6;

/**
 * Memory, processor time and the event loop's delays.
 *
 * @param before is called whenever metrics are collected, before they are read.
 * @returns how to stop
 */
export function observeProcess(meter: Meter, before: () => void): () => void {
  const { memory, cpu, loopDelayP50, loopDelayP99, loopDelayMax } = metrics;
  const gauge = ({ name, unit, description }: { name: string; unit: string; description: string }) =>
    meter.createObservableGauge(name, { unit, description });
  const delays = monitorEventLoopDelay({ resolution: resolutionMs });
  delays.enable();
  const used = gauge(memory);
  const spent = meter.createObservableCounter(cpu.name, { unit: cpu.unit, description: cpu.description });
  const [p50, p99, max] = [gauge(loopDelayP50), gauge(loopDelayP99), gauge(loopDelayMax)] as const;
  const look: Parameters<Meter["addBatchObservableCallback"]>[0] = (result) => {
    before();
    result.observe(used, process.memoryUsage.rss());
    const { user, system } = process.cpuUsage();
    result.observe(spent, user / microsInSecond, { [labels.cpuMode]: "user" });
    result.observe(spent, system / microsInSecond, { [labels.cpuMode]: "system" });
    // The timer that measures is itself due every 20 ms: what is beyond that is delay.
    const delay = (nanos: number): number => Math.max(0, nanos / nanosInSecond - resolutionMs / 1_000);
    result.observe(p50, delay(delays.percentile(50)));
    result.observe(p99, delay(delays.percentile(99)));
    result.observe(max, delay(delays.max));
    delays.reset();
  };
  const observed = [used, spent, p50, p99, max];
  meter.addBatchObservableCallback(look, observed);
  return () => {
    meter.removeBatchObservableCallback(look, observed);
    delays.disable();
  };
}
