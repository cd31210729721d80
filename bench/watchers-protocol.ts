/** What the writer is to do: one entry or text per run every so many ms. */
export type WriterPlan = { runs: number; seconds: number; everyMs: number };

/** What a whole feed must be, by run: its last entry's number, and all text of answers. */
export type Written = Record<string, { seq: number; text: string }>;

/** Since the last time it was asked. */
export type ServerStats = { peakRssBytes: number; cpuMs: number };

/** Ms by the machine's monotonic clock, the same in all its processes. */
export function now(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** When something was written, in a form that a reader finds in it. */
export function stamp(kind: "entry" | "text"): string {
  return `@${kind} ${now().toFixed(3)}@`;
}
