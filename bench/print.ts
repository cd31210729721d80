import type { Alone, Flatness } from "./alone.ts";
import type { Estimate } from "./stats.ts";

/** One length of run, measured in pairs. `commandsPerStep` counts those inside scripts too. */
export type Row = {
  turns: number;
  runs: number;
  tool: "read" | "write";
  ratio: Estimate;
  chainPerSecond: number;
  droverPerSecond: number;
  /** Per step, in µs. */
  cpu: Both;
  redisCpu: Both;
  commandsPerStep: Both;
  networkBytesPerStep: Both;
  storedBytesPerStep: number;
};

type Both = { chain: number; drover: number };

const f = (value: number, digits = 2): string => value.toFixed(digits);
const interval = ({ median, low, high }: Estimate): string => `${f(median)} (${f(low)} to ${f(high)})`;

/** Tables in Markdown, so that they can be shown as they are. */
export function printRows(rows: readonly Row[]): void {
  const head = [
    "turns a run",
    "tools",
    "share of the chain's steps/s (95 %)",
    "steps/s, chain → Drover",
    "worker's CPU µs a step",
    "Redis's CPU µs a step",
    "commands a step",
    "bytes sent a step",
    "bytes stored a step",
  ];
  const both = ({ chain, drover }: Both, digits = 0): string => `${f(chain, digits)} → ${f(drover, digits)}`;
  const line = (cells: readonly (string | number)[]): string => `| ${cells.join(" | ")} |`;
  console.log([line(head), line(head.map(() => "---"))].join("\n"));
  for (const row of rows) {
    const rates = both({ chain: row.chainPerSecond, drover: row.droverPerSecond });
    const costs = [both(row.cpu), both(row.redisCpu), both(row.commandsPerStep, 1), both(row.networkBytesPerStep)];
    console.log(line([row.turns, row.tool, interval(row.ratio), rates, ...costs, f(row.storedBytesPerStep, 0)]));
  }
}

export function printAlone({ chain, drover, overheadP50Ms, overheadP99Ms, meanRatio }: Alone): void {
  const one = ({ p50Ms, p99Ms, meanMs }: Alone["chain"]): string =>
    `p50 ${f(p50Ms)} ms, p99 ${f(p99Ms)} ms, mean ${f(meanMs)} ms`;
  console.log(`One run alone, from step to step: chain ${one(chain)}; Drover ${one(drover)}.`);
  console.log(
    `Drover adds: p50 ${f(overheadP50Ms)} ms, p99 ${f(overheadP99Ms)} ms a step; its mean is ${interval(meanRatio)} times the chain's.`,
  );
}

export function printFlatness({ steps, firstMs, lastMs, ratio }: Flatness): void {
  console.log(
    `A run of ${steps} steps alone: p50 ${f(firstMs)} ms for its first 100, ${f(lastMs)} ms for its last; ratio ${interval(ratio)}.`,
  );
}

/** Steps per second of a chain on one queue, of one on two queues in turns, and of Drover. */
export type Split = { oneQueue: number; twoQueues: number; drover: number };

export function printSplit({ oneQueue, twoQueues, drover }: Split): void {
  const step = (rate: number): string => `${f(1e6 / rate, 0)} µs`;
  console.log(
    `Where a step's time goes, 200 runs of 50 turns: a chain on one queue ${step(oneQueue)} (over two in turns ${step(twoQueues)}); ` +
      `Drover ${step(drover)}. The rest is its commit and engine.`,
  );
}
