import { z } from "zod";
import { type Durability, durabilitySchema } from "../core/durability.ts";
import { type Retention, retentionOfAll, retentionSchema } from "../core/retention.ts";
import { integer } from "./read-values.ts";
import type { SettingSpec } from "./setting.ts";

/** Ages from text: one for all statuses, or a JSON object of some. */
function readRetention(value: string, context: z.core.$RefinementCtx): Retention {
  const refuse = (): Retention => {
    context.issues.push({ code: "custom", message: "does not fit", input: value });
    return {};
  };
  let ages: unknown;
  try {
    ages = /^\d+$/.test(value) ? retentionOfAll(Number(value)) : JSON.parse(value);
  } catch {
    return refuse();
  }
  const parsed = retentionSchema.safeParse(ages);
  return parsed.success ? parsed.data : refuse();
}

/** A JSON object, as `createDrover` takes it. */
function readDurability(value: string, context: z.core.$RefinementCtx): Durability {
  let given: unknown;
  try {
    given = JSON.parse(value);
  } catch {
    given = undefined;
  }
  const parsed = durabilitySchema.safeParse(given);
  if (parsed.success) return parsed.data;
  context.issues.push({ code: "custom", message: "does not fit", input: value });
  return {};
}

/** What keeps Redis from filling up, and from losing what was acknowledged. */
export const storageSpecs: readonly SettingSpec[] = [
  {
    key: "durability",
    name: "DROVER_DURABILITY",
    description:
      'What an acknowledgement waits for beyond the primary\'s memory: `{"replicas":1}` for copies on replicas, `{"fsync":true}` for its disk (Redis 7.2 or later), `timeoutMs` (1000) before it is refused.',
    defaultValue: undefined,
    expected:
      'a JSON object of replicas (0 to 16), fsync (true, false or 0 to 16 replicas) and timeoutMs (50 to 60000), such as {"replicas":1}',
    secret: false,
    schema: z.string().transform(readDurability),
  },
  {
    key: "retention",
    name: "DROVER_RETENTION_MS",
    description:
      'How long workers keep runs that have ended, in ms from their end; 0: until somebody deletes them. By status: `{"completed":86400000,"failed":2592000000}`.',
    defaultValue: "0",
    expected:
      "a whole number of ms, 0 or from 1000 on, or such numbers for completed, failed, cancelled and rejected as a JSON object",
    secret: false,
    schema: z.string().transform(readRetention),
  },
  {
    key: "memoryLimitPercent",
    name: "DROVER_MEMORY_LIMIT_PERCENT",
    description:
      "Share of Redis's `maxmemory` from which on new runs are refused, so that those there are can end. Without a `maxmemory` none is.",
    defaultValue: "90",
    expected: "a whole number of percent from 1 to 100",
    secret: false,
    schema: integer(1, 100),
  },
];
