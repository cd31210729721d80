import { appendFileSync, readFileSync } from "node:fs";
import { z } from "zod";

/** One effect that took place, by the idempotency key under which it did. */
export type LedgerEntry = { key: string; tool: string; callId: string; pid: number; result: unknown };
const entrySchema: z.ZodType<LedgerEntry> = z.object({
  key: z.string(),
  tool: z.string(),
  callId: z.string(),
  pid: z.int(),
  result: z.unknown(),
});

/** Effects as they happened, oldest first. They stand in a file, since Redis is what is being tested. */
export function readLedger(file: string): LedgerEntry[] {
  let text = "";
  try {
    text = readFileSync(file, "utf8");
  } catch {
    // No effect yet.
  }
  const lines = text.split("\n").filter((line) => line !== "");
  return lines.map((line) => entrySchema.parse(JSON.parse(line)));
}

/** Has the effect unless its key stands in the ledger: what an idempotent tool does with `ctx.idempotencyKey`. */
export async function once(
  file: string,
  call: { key: string; tool: string; callId: string },
  effect: () => unknown,
): Promise<unknown> {
  const earlier = readLedger(file).find((entry) => entry.key === call.key);
  if (earlier) return earlier.result;
  const result = await effect();
  appendFileSync(file, `${JSON.stringify({ ...call, pid: process.pid, result })}\n`);
  return result;
}
