import { z } from "zod";

/** Who pauses the fleet and why; `waitMs`: how long workers are waited for, default 5,000. */
export type PauseAllOptions = {
  by?: string | undefined;
  reason?: string | undefined;
  waitMs?: number | undefined;
};

const optionsSchema = z.strictObject({
  by: z.string().min(1).max(1_000).optional(),
  reason: z.string().max(10_000).optional(),
  waitMs: z.int().min(0).max(600_000).optional(),
});

/** What is wrong with them, in words; empty if nothing. */
export function problemsOfPauseAll(options: PauseAllOptions): string[] {
  const issues = optionsSchema.safeParse(options).error?.issues ?? [];
  return issues.map(({ path, message }) => `${path.join(".") || "options"}: ${message}`);
}
