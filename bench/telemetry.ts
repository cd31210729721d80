// npm run bench -- --telemetry: what tracing and metrics cost. Pairs of a worker with both and one with neither, taken in
// turns on one Redis; every span is sampled and sent over OTLP, and metrics every five seconds (the default is sixty), to a sink on this machine.
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { endWithUs } from "../scripts/scratch/scratch.ts";
import { type BenchWorker, startBenchWorker, type Task } from "./protocol.ts";
import { type Estimate, estimate, median } from "./stats.ts";

export type TelemetryCost = {
  pairs: number;
  task: Task;
  /** Steps per second with, by those without: of each pair, and its median with a 95 % interval. */
  ratio: Estimate;
  ratios: number[];
  perSecond: { off: number; on: number };
  cpuMsPer1000: { off: number; on: number };
  /** What came to the sink. */
  received: { traces: number; metrics: number; bytes: number };
};

type Sink = { url: string; received: TelemetryCost["received"]; stop(): void };

function startSink(): Promise<Sink> {
  const child = fork(fileURLToPath(new URL("sink.ts", import.meta.url)), {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  endWithUs(child);
  const received = { traces: 0, metrics: 0, bytes: 0 };
  return new Promise((resolve) => {
    child.on("message", (message: { port?: number; path?: string; bytes?: number }) => {
      if (message.port !== undefined) {
        resolve({ url: `http://127.0.0.1:${message.port}`, received, stop: () => child.disconnect() });
        return;
      }
      received[message.path?.endsWith("/metrics") ? "metrics" : "traces"] += 1;
      received.bytes += message.bytes ?? 0;
    });
  });
}

type Which = "off" | "on";

/** @param forget removes what the runs left, so that each measurement meets the same Redis. */
export async function measureTelemetry(
  url: string,
  pairs: number,
  forget: () => Promise<void>,
): Promise<TelemetryCost> {
  const sink = await startSink();
  const workers: Record<Which, BenchWorker> = {
    off: await startBenchWorker("drover-worker.ts", url, { env: { OTEL_SDK_DISABLED: "true" } }),
    on: await startBenchWorker("drover-worker.ts", url, {
      env: {
        OTEL_SDK_DISABLED: "false",
        OTEL_EXPORTER_OTLP_ENDPOINT: sink.url,
        OTEL_METRIC_EXPORT_INTERVAL: "5000",
        OTEL_METRIC_EXPORT_TIMEOUT: "5000",
      },
      args: ["{drover-bench-on}"],
    }),
  };
  const task: Task = { runs: 200, steps: 50, tool: "read" };
  const rates: Record<Which, number[]> = { off: [], on: [] };
  const cpu: Record<Which, number[]> = { off: [], on: [] };
  try {
    // Twice: what is measured is code that is warm.
    for (const which of ["off", "on", "off", "on"] as const) await workers[which].measure(task);
    await forget();
    for (let pair = 0; pair < pairs; pair += 1) {
      process.stderr.write(`  telemetry: pair ${pair + 1} of ${pairs}\n`);
      for (const which of pair % 2 === 0 ? (["off", "on"] as const) : (["on", "off"] as const)) {
        const { elapsedMs, cpuMs } = await workers[which].measure(task);
        rates[which].push((task.runs * task.steps * 1_000) / elapsedMs);
        cpu[which].push((cpuMs * 1_000) / (task.runs * task.steps));
        await forget();
      }
    }
  } finally {
    await Promise.all(Object.values(workers).map((worker) => worker.stop()));
    sink.stop();
  }
  const ratios = rates.on.map((on, index) => on / (rates.off[index] ?? Number.NaN));
  return {
    pairs,
    task,
    ratio: estimate(ratios),
    ratios,
    perSecond: { off: median(rates.off), on: median(rates.on) },
    cpuMsPer1000: { off: median(cpu.off), on: median(cpu.on) },
    received: sink.received,
  };
}

export function printTelemetry({ ratio, perSecond, cpuMsPer1000, pairs, received }: TelemetryCost): void {
  const percent = (value: number): string => `${((1 - value) * 100).toFixed(1)} %`;
  console.log(
    `Tracing and metrics cost ${percent(ratio.median)} of step throughput (95 %: ${percent(ratio.high)} to ${percent(ratio.low)}; ${pairs} pairs): ` +
      `${perSecond.off.toFixed(0)} steps/s without, ${perSecond.on.toFixed(0)} with; CPU per 1,000 steps ` +
      `${cpuMsPer1000.off.toFixed(0)} and ${cpuMsPer1000.on.toFixed(0)} ms. The sink took ${received.traces} exports of ` +
      `spans and ${received.metrics} of metrics, ${(received.bytes / 1e6).toFixed(1)} MB.`,
  );
}
