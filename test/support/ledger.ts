import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";

const entrySchema = z.object({
  tool: z.string(),
  runId: z.string(),
  callId: z.string(),
  key: z.string(),
  attempt: z.int(),
  pid: z.int(),
  at: z.number(),
});
/** One execution of a tool as it began, written by the process it ran in. */
export type LedgerEntry = z.infer<typeof entrySchema>;

/**
 * What tools really did, kept in files: Redis is what is being tested. Executions are lines of one file; effects of
 * tools that honour their idempotency key are files named by it, which only the first to come can make.
 */
export type Ledger = {
  /** Notes an execution before its effect. */
  begin(entry: Omit<LedgerEntry, "pid" | "at">): void;
  /** Has the effect of that key unless it took place before; true if it did so now. */
  once(key: string): boolean;
  entries(): LedgerEntry[];
  /** Blocks this process, event loop and all, until `unblock` was called in any. */
  waitUnblocked(): void;
  unblock(): void;
  /** Idempotency keys whose effect took place, sorted. */
  effects(): string[];
};

export function openLedger(dir: string): Ledger {
  const file = join(dir, "executions.jsonl");
  const effects = join(dir, "effects");
  const unblocked = join(dir, "unblocked");
  mkdirSync(effects, { recursive: true });
  return {
    begin(entry) {
      appendFileSync(file, `${JSON.stringify({ ...entry, pid: process.pid, at: Date.now() })}\n`);
    },
    once(key) {
      try {
        writeFileSync(join(effects, encodeURIComponent(key)), String(process.pid), { flag: "wx" });
        return true;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
        return false;
      }
    },
    entries() {
      if (!existsSync(file)) return [];
      const lines = readFileSync(file, "utf8").split("\n");
      return lines.filter((line) => line !== "").map((line) => entrySchema.parse(JSON.parse(line)));
    },
    waitUnblocked() {
      const cell = new Int32Array(new SharedArrayBuffer(4));
      while (!existsSync(unblocked)) Atomics.wait(cell, 0, 0, 10);
    },
    unblock: () => writeFileSync(unblocked, ""),
    effects: () => readdirSync(effects).map(decodeURIComponent).sort(),
  };
}
