import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Begun, Execution } from "../../src/chaos/execution.ts";
import { openLedger as openChaosLedger } from "../../src/chaos/ledger.ts";

/** One execution of a tool as it began. */
export type LedgerEntry = Begun;

/** The ledger that `drover chaos` keeps too, and a way to hold up a whole process. */
export type Ledger = {
  note(execution: Execution): void;
  /** Notes that an execution has begun, or goes on. */
  begin(entry: Omit<LedgerEntry, "type" | "pid" | "at">): void;
  /** Has the effect of that key unless it took place before; true if it did so now. */
  once(key: string): boolean;
  /** Everything that was noted, by whichever process. */
  executions(): Execution[];
  /** Of that, what has begun. */
  entries(): LedgerEntry[];
  /** Blocks this process, event loop and all, until `unblock` was called in any. */
  waitUnblocked(): void;
  unblock(): void;
  /** Idempotency keys whose effect took place, sorted. */
  effects(): string[];
};

export function openLedger(dir: string): Ledger {
  const unblocked = join(dir, "unblocked");
  const ledger = openChaosLedger(dir);
  const seen: Execution[] = [];
  const executions = (): Execution[] => {
    seen.push(...ledger.readExecutions());
    return [...seen];
  };
  return {
    note: ledger.note,
    begin: (entry) => ledger.note({ ...entry, type: "begun", pid: process.pid, at: Date.now() }),
    once: ledger.once,
    executions,
    entries: () => executions().filter((entry) => entry.type === "begun"),
    waitUnblocked() {
      const cell = new Int32Array(new SharedArrayBuffer(4));
      while (!existsSync(unblocked)) Atomics.wait(cell, 0, 0, 10);
    },
    unblock: () => writeFileSync(unblocked, ""),
    effects: ledger.keys,
  };
}
