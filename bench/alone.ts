import type { BenchWorker } from "./protocol.ts";
import { type Estimate, estimate, mean, median, quantile } from "./stats.ts";

type Times = { p50Ms: number; p99Ms: number; meanMs: number };

/** One run alone. `meanRatio`: Drover's mean time per step, as a multiple of the chain's. */
export type Alone = {
  chain: Times;
  drover: Times;
  overheadP50Ms: number;
  overheadP99Ms: number;
  meanRatio: Estimate;
};

/** What is measured alone: a run of 100 turns. The first steps meet cold caches and are left out. */
const stepsAlone = 199;
const warmUp = 10;

/** The time from the start of one step's work, which takes none, to the start of the next one's. */
export async function measureAlone(workers: Record<"chain" | "drover", BenchWorker>, pairs: number): Promise<Alone> {
  const rounds = { chain: [] as number[][], drover: [] as number[][] };
  for (let pair = 0; pair < pairs; pair += 1) {
    for (const which of ["chain", "drover"] as const) {
      const { gaps } = await workers[which].measure({ runs: 1, steps: stepsAlone, tool: "read" });
      rounds[which].push(gaps.slice(warmUp));
    }
  }
  const timesOf = (list: number[][]): Times => {
    const all = list.flat();
    return { p50Ms: quantile(all, 0.5), p99Ms: quantile(all, 0.99), meanMs: mean(all) };
  };
  const [chain, drover] = [timesOf(rounds.chain), timesOf(rounds.drover)];
  return {
    chain,
    drover,
    overheadP50Ms: drover.p50Ms - chain.p50Ms,
    overheadP99Ms: drover.p99Ms - chain.p99Ms,
    meanRatio: estimate(rounds.drover.map((gaps, index) => mean(gaps) / mean(rounds.chain[index] ?? []))),
  };
}

/** How the time of a step grows with the history before it: medians of the first and the last steps of a long run. */
export type Flatness = { steps: number; firstMs: number; lastMs: number; ratio: Estimate };

const longRun = 999;
const endsOf = 100;

export async function measureFlatness(drover: BenchWorker, rounds: number): Promise<Flatness> {
  const first: number[] = [];
  const last: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const { gaps } = await drover.measure({ runs: 1, steps: longRun, tool: "read" });
    first.push(median(gaps.slice(warmUp, warmUp + endsOf)));
    last.push(median(gaps.slice(-endsOf)));
  }
  return {
    steps: longRun,
    firstMs: median(first),
    lastMs: median(last),
    ratio: estimate(last.map((ms, index) => ms / (first[index] ?? Number.NaN))),
  };
}
