import { z } from "zod";
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

/** What keeps Redis from filling up. */
export const storageSpecs: readonly SettingSpec[] = [
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
