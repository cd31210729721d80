import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { type Execution, executionSchema } from "./execution.ts";
import type { Silence } from "./pulse.ts";

const modelCallSchema: z.ZodType<ModelCall> = z.object({
  runId: z.string(),
  turn: z.int(),
  attempt: z.int(),
  pid: z.int(),
  at: z.number(),
  seq: z.int().optional(),
});
/** `at`: epoch ms; `seq`: the last entry of its run's feed that its step knew of. */
export type ModelCall = {
  runId: string;
  turn: number;
  attempt: number;
  pid: number;
  at: number;
  seq?: number | undefined;
};
const silenceSchema: z.ZodType<Silence & { pid: number }> = z.object({
  pid: z.int(),
  from: z.number(),
  to: z.number(),
});

/** What worker processes did, in files beside Redis: that is what is being tested. A line is whole or not there. */
export type Ledger = {
  note(execution: Execution): void;
  noteModelCall(call: Omit<ModelCall, "pid" | "at">): void;
  noteSilence(silence: Silence): void;
  /** Has the effect of that key unless it took place before, by whichever process; true if it did so now. */
  once(key: string): boolean;
  /** Keys whose effect took place that way, sorted. */
  keys(): string[];
  /** What was written since the last time, by whichever process. */
  readExecutions(): Execution[];
  readModelCalls(): ModelCall[];
  readSilences(): (Silence & { pid: number })[];
};

export function openLedger(dir: string): Ledger {
  const executions = join(dir, "executions.jsonl");
  const calls = join(dir, "model-calls.jsonl");
  const silences = join(dir, "silences.jsonl");
  const effects = join(dir, "effects");
  const nextExecutions = createReader(executions, (value) => executionSchema.parse(value));
  const nextCalls = createReader(calls, (value) => modelCallSchema.parse(value));
  const nextSilences = createReader(silences, (value) => silenceSchema.parse(value));
  return {
    note: (execution) => appendFileSync(executions, `${JSON.stringify(execution)}\n`),
    noteModelCall: (call) =>
      appendFileSync(calls, `${JSON.stringify({ ...call, pid: process.pid, at: Date.now() })}\n`),
    noteSilence: (silence) => appendFileSync(silences, `${JSON.stringify({ pid: process.pid, ...silence })}\n`),
    once(key) {
      mkdirSync(effects, { recursive: true });
      try {
        // Only the first to come can make the file.
        writeFileSync(join(effects, encodeURIComponent(key)), String(process.pid), { flag: "wx" });
        return true;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
        return false;
      }
    },
    keys: () => (existsSync(effects) ? readdirSync(effects).map(decodeURIComponent).sort() : []),
    readExecutions: nextExecutions,
    readModelCalls: nextCalls,
    readSilences: nextSilences,
  };
}

function createReader<T>(file: string, parse: (value: unknown) => T): () => T[] {
  let read = 0;
  return () => {
    if (!existsSync(file)) return [];
    const bytes = readFileSync(file);
    const end = bytes.lastIndexOf(0x0a) + 1;
    const lines = bytes.subarray(read, end).toString("utf8").split("\n");
    read = end;
    return lines.filter((line) => line !== "").map((line) => parse(JSON.parse(line)));
  };
}
