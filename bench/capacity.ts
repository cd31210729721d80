// npm run bench:capacity [-- --measured FILE]
//
// Prints the tables of docs/capacity.md: what it takes to have so many runs at work at once, and, given what
// `npm run bench:scale -- --json` has printed, how far the model is from what was measured.

import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { z } from "zod";
import { type Demand, installationFor, redisWaitMs, stepsPerSecond } from "./capacity-model.ts";

/** Of one Redis and of a cluster, where a process sends less at a time to each server. */
const demands: Record<"one" | "cluster", Demand> = {
  one: { workerUs: 281, redisUs: 120 },
  cluster: { workerUs: 335, redisUs: 171 },
};
/** Above this share waits grow fast. */
const busy = 0.7;

const { values: flags } = parseArgs({ options: { measured: { type: "string" } } });
const say = (cells: (string | number)[]): void => void process.stdout.write(`| ${cells.join(" | ")} |\n`);
const table = (head: string[], rows: (string | number)[][]): void => {
  for (const cells of [head, head.map(() => "---:"), ...rows]) say(cells);
  process.stdout.write("\n");
};
const round = (value: number): string => Math.round(value).toLocaleString("en");

function printNeeds(): void {
  const rows = [50, 1_000, 10_000].flatMap((latencyMs) =>
    [1_000, 10_000, 100_000, 1_000_000].map((runs) => {
      const alone = installationFor(runs, demands.one, latencyMs, busy);
      const { perSecond, workers, masters, slots } =
        alone.masters === 1 ? alone : installationFor(runs, demands.cluster, latencyMs, busy);
      return [round(latencyMs), round(runs), round(perSecond), round(workers), round(slots), round(masters)];
    }),
  );
  table(["model call, ms", "runs at work", "steps/s", "worker cores", "calls at once in each", "Redis masters"], rows);
  process.stdout.write(
    `A command waits ${redisWaitMs(demands.cluster, busy).toFixed(2)} ms for a server that is 70 % busy.\n\n`,
  );
}

const measuredSchema = z.object({
  cores: z.number(),
  rows: z.array(
    z.object({
      place: z.string(),
      latencyMs: z.number(),
      workers: z.number(),
      slots: z.number(),
      masters: z.number(),
      perSecond: z.number(),
      workerCpu: z.number(),
      redisCpu: z.number(),
    }),
  ),
});

function printComparison(file: string): void {
  const { cores, rows } = measuredSchema.parse(JSON.parse(readFileSync(file, "utf8")));
  const compared = rows.map(({ place, latencyMs, workers, slots, masters, perSecond, workerCpu, redisCpu }) => {
    const demand = { workerUs: workerCpu, redisUs: redisCpu };
    const model = stepsPerSecond({ workers, slots, masters, cores }, demand, latencyMs);
    const off = `${Math.round((perSecond / model.perSecond) * 100)} %`;
    return [place, latencyMs, workers, round(perSecond), round(model.perSecond), model.bound, off];
  });
  table(["Redis", "model call, ms", "workers", "measured", "model", "bound by", "measured / model"], compared);
}

printNeeds();
if (flags.measured !== undefined) printComparison(flags.measured);
