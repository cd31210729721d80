import { readFileSync } from "node:fs";
import { z } from "zod";
import { DroverError, toError } from "../core/errors.ts";
import { type PointFault, pointFaultSchema } from "./ports.ts";
import { type TimedFault, timedFaultSchema } from "./timed-faults.ts";

/**
 * What is to happen to which runs, as plain data: what a failure prints, and what `--schedule` plays again.
 * - `points`: one run of `agent` named `runId` in memory, faults by port call;
 * - `processes`: so many runs of worker processes over a real Redis, faults by time.
 */
export type Schedule =
  | { layer: "points"; agent: string; runId: string; seed: number; faults: PointFault[] }
  | { layer: "processes"; agents: string[]; runs: number; workers: number; seed: number; faults: TimedFault[] };

const name = z.string().min(1);
const scheduleSchema: z.ZodType<Schedule> = z.discriminatedUnion("layer", [
  z.strictObject({
    layer: z.literal("points"),
    agent: name,
    runId: name,
    seed: z.int().min(0),
    faults: z.array(pointFaultSchema),
  }),
  z.strictObject({
    layer: z.literal("processes"),
    agents: z.array(name).min(1),
    runs: z.int().min(1),
    workers: z.int().min(1).max(64),
    seed: z.int().min(0),
    faults: z.array(timedFaultSchema),
  }),
]);

/** @throws DroverError "invalid" naming what does not fit. */
export function readSchedule(file: string): Schedule {
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw new DroverError("invalid", `The schedule ${file} cannot be read: ${toError(error).message}`);
  }
  const parsed = scheduleSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(({ path, message }) => `${path.join(".") || "schedule"}: ${message}`);
  throw new DroverError("invalid", `The schedule ${file} cannot be used: ${problems.join("; ")}.`);
}
