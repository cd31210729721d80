import { type ChildProcess, fork } from "node:child_process";
import { Worker } from "node:worker_threads";
import { z } from "zod";
import type { Isolate } from "./engine/step.ts";
import type { Delivery, DeliveryAbort, StepAddress } from "./ports.ts";

/** Names the step that a child process was started for. */
const stepVariable = "DROVER_ISOLATED_STEP";

const addressSchema: z.ZodType<StepAddress & { lostWorkers: number }> = z.object({
  runId: z.string(),
  owedAt: z.int(),
  index: z.int(),
  lostWorkers: z.int(),
});

/** What a child tells its worker when it begins its step, and when that has ended. */
const begunMessage = "drover-step-begun";
const doneMessage = "drover-step-done";
/** Again and again meanwhile. */
const beatMessage = "drover-step-goes-on";

/** How a program ends that was told to: by a signal that a whole group of processes is sent, or in order. */
const stopSignals = new Set(["SIGTERM", "SIGINT", "SIGHUP"]);
const stopCodes = new Set([0, 130, 143]);
/** How one ends that nobody asked to end, though its code says that all is well (sysexits.h: an internal error). */
const unaskedCode = 70;

/** A program that has not come to its step after so long never will. */
const startMs = 120_000;
/** What a child that hears that its step is not wanted any more may still need to tell what that cost. */
const unwantedGraceMs = 5_000;
/** How often a child tells that its thread is free. */
const beatMs = 1_000;

/**
 * Runs a step alone: starts this program again, as it was started, with the step in its environment. There
 * `drover.work()` executes that one step and ends the process. The worker keeps the step's lock meanwhile.
 * The step is to blame only for a death that came after it began and that nobody asked for, and for keeping its thread: such
 * a child hears nothing, neither a cancel nor its own timeout, and is ended.
 */
export const isolateInChild: Isolate = (delivery, { silentMs, unwanted }) =>
  new Promise((resolve) => {
    if (delivery.signal.aborted) {
      resolve({ died: false });
      return;
    }
    const child = start(delivery);
    let begun = false;
    let finished = false;
    let overdue = false;
    const kill = (): void => {
      child.kill("SIGKILL");
    };
    const stopWatching = watchBeats(child, {
      mostMs: () => (begun ? silentMs : startMs),
      onSilent() {
        overdue = true;
        kill();
      },
    });
    const stopWaiting = afterAbort(unwanted, unwantedGraceMs, kill);
    delivery.signal.addEventListener("abort", kill, { once: true });
    child.on("message", (message) => {
      begun ||= message === begunMessage;
      finished ||= message === doneMessage;
    });
    child.once("error", () => end(true, ""));
    child.once("exit", (code, signal) => {
      const how = overdue ? `it kept its thread for ${Math.round(silentMs / 1_000)} s` : (signal ?? describeCode(code));
      end(signal === null ? stopCodes.has(code ?? 0) : stopSignals.has(signal), how);
    });
    function end(stopped: boolean, how: string): void {
      delivery.signal.removeEventListener("abort", kill);
      stopWaiting();
      stopWatching();
      const ended = stopped || delivery.signal.aborted || unwanted.aborted;
      const died = begun && !finished && !ended;
      const neverBegan = !begun && !ended;
      resolve(died ? { died, how } : { died: false, ...(neverBegan ? { neverBegan } : {}) });
    }
  });

function start({ step: address, lostWorkers }: Delivery): ChildProcess {
  const [, script = "", ...args] = process.argv;
  return fork(script, args, {
    env: { ...process.env, [stepVariable]: JSON.stringify({ ...address, lostWorkers }) },
  });
}

/** Counts by what this process itself could hear: it may be stopped for a while too. */
function watchBeats(child: ChildProcess, { mostMs, onSilent }: { mostMs: () => number; onSilent(): void }): () => void {
  let silentMs = 0;
  child.on("message", () => {
    silentMs = 0;
  });
  const timer = setInterval(() => {
    silentMs += beatMs;
    if (silentMs > mostMs()) onSilent();
  }, beatMs);
  return () => clearInterval(timer);
}

/** @returns how to call it off */
function afterAbort(signal: AbortSignal, ms: number, act: () => void): () => void {
  let timer: NodeJS.Timeout | undefined;
  const wait = (): void => {
    timer = setTimeout(act, ms);
  };
  if (signal.aborted) wait();
  else signal.addEventListener("abort", wait, { once: true });
  return () => {
    signal.removeEventListener("abort", wait);
    clearTimeout(timer);
  };
}

function describeCode(code: number | null): string {
  return code === unaskedCode ? "exit code 0, though nobody had asked it to end" : `exit code ${code}`;
}

/** The step this process was started for; undefined in an ordinary worker. */
export function isolatedStep(
  env: Record<string, string | undefined> = process.env,
): (StepAddress & { lostWorkers: number }) | undefined {
  const text = env[stepVariable];
  return text === undefined ? undefined : addressSchema.parse(JSON.parse(text));
}

/**
 * Tells the worker that the step begins now: from here on the process may die of it.
 *
 * @returns aborted when the worker is gone, and with it whoever kept the step's lock; perhaps it is already.
 */
export function beginIsolated(): AbortSignal {
  tellUnaskedEnd();
  endWithParent();
  const controller = new AbortController();
  const reason: DeliveryAbort = "lock_lost";
  const abandon = (): void => controller.abort(reason);
  if (process.send === undefined || !process.connected) abandon();
  else {
    process.once("disconnect", abandon);
    process.send(begunMessage, undefined, {}, unheard);
    setInterval(() => {
      if (process.connected) process.send?.(beatMessage, undefined, {}, unheard);
    }, beatMs).unref();
  }
  return controller.signal;
}

/** Has its own thread: whose worker is gone while a tool keeps this one would go on for ever, and nobody would end it. */
const watchParent = `
const { workerData } = require("node:worker_threads");
setInterval(() => {
  if (process.ppid === workerData.parent) return;
  setTimeout(() => process.kill(process.pid, "SIGKILL"), workerData.graceMs);
}, 1_000);`;

/** After what a step that hears of it takes to end by itself. */
function endWithParent(): void {
  const workerData = { parent: process.ppid, graceMs: unwantedGraceMs };
  try {
    // What the program's own threads are given is not for this one.
    new Worker(watchParent, { eval: true, execArgv: [], env: {}, workerData }).on("error", unheard).unref();
  } catch {
    // A program that may have no threads: its step goes on all the same.
  }
}

let hasEnded = false;

/** A tool that calls `process.exit()` ends the process as one that was told to stop does; which it is only this process knows. */
function tellUnaskedEnd(): void {
  const wasAsked = watchForStops();
  process.once("exit", (code) => {
    if (code === 0 && !hasEnded && !wasAsked() && process.connected) process.exitCode = unaskedCode;
  });
}

/**
 * Whether a signal to stop has come. Nothing else is to notice that somebody asks: a signal that the program has no
 * listener for, or none any more, ends it as ever; and a listener that lets it end only if there is no other (signal-exit
 * is one) finds none, for ours is gone when it runs.
 */
function watchForStops(): () => boolean {
  let asked = false;
  const note = (): void => {
    asked = true;
  };
  const isOurs = (event: string | symbol): boolean => process.rawListeners(event).some((one) => isNote(one, note));
  const watch = (event: string | symbol): void => {
    if (asked || !isStopSignal(event) || isOurs(event)) return;
    process.prependOnceListener(event, note);
  };
  const unwatch = (event: string | symbol): void => {
    if (isStopSignal(event) && process.listenerCount(event) === 1 && isOurs(event)) process.removeListener(event, note);
  };
  for (const signal of stopSignals) if (process.listenerCount(signal) > 0) watch(signal);
  process.on("newListener", (event, listener) => {
    if (!isNote(listener, note)) watch(event);
  });
  process.on("removeListener", unwatch);
  return () => asked;
}

function isStopSignal(event: string | symbol): event is NodeJS.Signals {
  return typeof event === "string" && stopSignals.has(event);
}

/** As it was given, or in the wrapper that makes it be called once. */
function isNote(listener: unknown, note: () => void): boolean {
  return listener === note || (listener as { listener?: unknown } | undefined)?.listener === note;
}

/** A worker that is gone is told nothing; without somebody to take the error, it would end this process in mid-step. */
function unheard(): void {}

/** Tells the worker that the step has ended, and ends this process. */
export function endIsolated(): never {
  hasEnded = true;
  if (process.connected) {
    process.send?.(doneMessage, undefined, {}, unheard);
    process.disconnect?.();
  }
  process.exit(0);
}
