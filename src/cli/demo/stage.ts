import { z } from "zod";

// What a demo worker and the demo tell each other over the channel between the processes. A tool asks before it has
// its effect and waits for the word: so the demo knows for certain which worker holds a step when it kills it.

/** From a worker. */
export type StageReport =
  | { type: "ready" }
  | { type: "model"; runId: string; turn: number }
  | { type: "holding"; runId: string; callId: string; turn: number; tool: string; args: string };
const reportSchema: z.ZodType<StageReport> = z.discriminatedUnion("type", [
  z.object({ type: z.literal("ready") }),
  z.object({ type: z.literal("model"), runId: z.string(), turn: z.int() }),
  z.object({
    type: z.literal("holding"),
    runId: z.string(),
    callId: z.string(),
    turn: z.int(),
    tool: z.string(),
    args: z.string(),
  }),
]);

/** To a worker: its call may go on. */
export type StageWord = { type: "go"; runId: string; callId: string };
const wordSchema: z.ZodType<StageWord> = z.object({ type: z.literal("go"), runId: z.string(), callId: z.string() });

/** Undefined for a message of somebody else. */
export function readReport(message: unknown): StageReport | undefined {
  return reportSchema.safeParse(message).data;
}

/** A worker's end of the channel. */
export type Stage = {
  report(report: StageReport): void;
  /** Tells that a call is about to have its effect; resolves when it may. Rejects when the step was aborted. */
  hold(call: Omit<Extract<StageReport, { type: "holding" }>, "type">, signal: AbortSignal): Promise<void>;
};

export function createStage(): Stage {
  const waiting = new Map<string, () => void>();
  process.on("message", (message) => {
    const word = wordSchema.safeParse(message).data;
    if (word) waiting.get(`${word.runId} ${word.callId}`)?.();
  });
  const report = (message: StageReport): void => {
    process.send?.(message);
  };
  return {
    report,
    hold(call, signal) {
      const key = `${call.runId} ${call.callId}`;
      return new Promise((resolve, reject) => {
        waiting.set(key, resolve);
        signal.addEventListener("abort", () => reject(signal.reason), { once: true });
        report({ type: "holding", ...call });
      });
    },
  };
}
