import { fork } from "node:child_process";
import { z } from "zod";
import type { Isolate } from "./engine/step.ts";
import type { StepAddress } from "./ports.ts";

/** Names the step that a child process was started for. */
const stepVariable = "DROVER_ISOLATED_STEP";

const addressSchema: z.ZodType<StepAddress & { lostWorkers: number }> = z.object({
  runId: z.string(),
  owedAt: z.int(),
  index: z.int(),
  lostWorkers: z.int(),
});

/** What a child tells its worker when its step has ended. */
const doneMessage = "drover-step-done";

/**
 * Runs a step alone: starts this program again, as it was started, with the step in its environment. There
 * `drover.work()` executes that one step and ends the process. The worker keeps the step's lock meanwhile.
 */
export const isolateInChild: Isolate = (delivery) =>
  new Promise((resolve) => {
    const [, script = "", ...args] = process.argv;
    const step = JSON.stringify({ ...delivery.step, lostWorkers: delivery.lostWorkers });
    const child = fork(script, args, { env: { ...process.env, [stepVariable]: step } });
    let finished = false;
    const kill = (): void => {
      child.kill("SIGKILL");
    };
    delivery.signal.addEventListener("abort", kill, { once: true });
    child.on("message", (message) => {
      finished ||= message === doneMessage;
    });
    child.once("error", (error) => end(`it could not be started: ${error.message}`));
    child.once("exit", (code, signal) => end(signal ?? `exit code ${code}`));
    function end(how: string): void {
      delivery.signal.removeEventListener("abort", kill);
      resolve(finished || delivery.signal.aborted ? { died: false } : { died: true, how });
    }
  });

/** The step this process was started for; undefined in an ordinary worker. */
export function isolatedStep(
  env: Record<string, string | undefined> = process.env,
): (StepAddress & { lostWorkers: number }) | undefined {
  const text = env[stepVariable];
  return text === undefined ? undefined : addressSchema.parse(JSON.parse(text));
}

/** Tells the worker that the step has ended, and ends this process. */
export function endIsolated(): never {
  process.send?.(doneMessage);
  process.disconnect?.();
  process.exit(0);
}
