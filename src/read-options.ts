import { z } from "zod";
import { type DurabilityTarget, durabilitySchema, toDurabilityTarget } from "./core/durability.ts";
import { DroverError } from "./core/errors.ts";
import { type OperatorLimits, operatorLimitsSchema } from "./core/fleet-limits.ts";
import { type Retention, retentionSchema } from "./core/retention.ts";
import { defaultMemoryLimitPercent } from "./core/room.ts";
import { hashTag } from "./redis/keys.ts";
import { mostShards } from "./sharding/slots.ts";

// Options of `createDrover` that are data, checked one by one.

/** @throws DroverError "invalid" for a number of shards that cannot be had. */
export function readShards(given: unknown, prefix: string): number {
  const { success, data } = z.int().min(1).max(mostShards).default(1).safeParse(given);
  if (!success) {
    throw new DroverError("invalid", `shards: expected a whole number from 1 to ${mostShards}, got ${String(given)}.`);
  }
  if (data > 1 && hashTag(prefix) === undefined) {
    throw new DroverError("invalid", `prefix: with shards it needs a hash tag. Write it like {${prefix}}.`);
  }
  return data;
}

/** @throws DroverError "invalid" for limits that do not fit, naming every field that is wrong. */
export function readLimits(given: unknown = {}): OperatorLimits {
  const { success, data, error } = operatorLimitsSchema.safeParse(given);
  if (success) return data;
  const problems = error.issues.map(({ path, message }) => `${path.join(".") || "limits"}: ${message}`);
  throw new DroverError("invalid", `The limits cannot be used: ${problems.join("; ")}.`);
}

/** @throws DroverError "invalid" for a share that is none. */
export function readMemoryLimit(given: unknown = defaultMemoryLimitPercent): number {
  const { success, data } = z.number().gt(0).max(100).safeParse(given);
  if (success) return data;
  throw new DroverError(
    "invalid",
    `memoryLimitPercent: expected a number above 0 and up to 100, got ${String(given)}.`,
  );
}

/** @throws DroverError "invalid" naming every field that does not fit */
export function readDurability(given: unknown = {}): DurabilityTarget | undefined {
  const { success, data, error } = durabilitySchema.safeParse(given);
  if (success) return toDurabilityTarget(data);
  const problems = error.issues.map(({ path, message }) => `${["durability", ...path].join(".")}: ${message}`);
  throw new DroverError("invalid", `The durability cannot be used: ${problems.join("; ")}.`);
}

/** @throws DroverError "invalid" for ages that do not fit, naming every field that is wrong. */
export function readRetention(given: unknown = {}): Retention {
  const { success, data, error } = retentionSchema.safeParse(given);
  if (success) return data;
  const problems = error.issues.map(({ path, message }) => `retention.${path.join(".")}: ${message}`);
  throw new DroverError("invalid", `The retention cannot be used: ${problems.join("; ")}.`);
}
