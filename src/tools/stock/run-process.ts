import { type ChildProcess, type ChildProcessByStdio, spawn } from "node:child_process";
import type { Readable } from "node:stream";
import { PermanentError } from "../../core/errors.ts";
import { codeOf } from "./inside-root.ts";
import { createOutputBuffer } from "./output-buffer.ts";

export type ProcessRequest = {
  command: string;
  args: string[];
  cwd: string;
  env: Record<string, string>;
  signal: AbortSignal;
  timeoutMs: number;
  /** From the request to end until the group is killed. */
  killAfterMs: number;
  maxOutputBytes: number;
};

export type Ending = { code: number | null; signal: string | null; timedOut: boolean; output: string };

/** How long output may still come after the program itself has ended, from children it left behind. */
const drainMs = 500;

/**
 * Runs a program in a process group of its own and waits for its end. At the timeout, and when the signal aborts, the
 * whole group is asked to end and then killed; what a program leaves running behind it is killed too.
 *
 * @throws PermanentError if it could not be started.
 */
export async function runProcess(request: ProcessRequest): Promise<Ending> {
  const child = start(request);
  const output = createOutputBuffer(request.maxOutputBytes);
  child.stdout.on("data", output.add);
  child.stderr.on("data", output.add);
  const closed = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const exited = waitForExit(child);
  const ending = endInTime(child, request);
  try {
    const { code, signal } = await exited;
    await drain(child, closed);
    request.signal.throwIfAborted();
    return { code, signal, timedOut: ending.timedOut(), output: output.text() };
  } finally {
    ending.stop();
  }
}

type Child = ChildProcessByStdio<null, Readable, Readable>;

function start({ command, args, cwd, env }: ProcessRequest): Child {
  try {
    return spawn(command, args, { cwd, env, shell: false, detached: true, stdio: ["ignore", "pipe", "pipe"] });
  } catch (error) {
    throw notStarted(error);
  }
}

/** Nothing was started, so nothing happened. */
function notStarted(error: unknown): PermanentError {
  return new PermanentError(`it could not be started (${codeOf(error)})`);
}

/** Waits for the last output, and ends what was left behind. Who left the group keeps running, but is not waited for. */
async function drain(child: Child, closed: Promise<void>): Promise<void> {
  const drop = setTimeout(() => {
    child.stdout.destroy();
    child.stderr.destroy();
  }, drainMs);
  await closed;
  clearTimeout(drop);
  killGroup(child, "SIGKILL");
}

function waitForExit(child: ChildProcess): Promise<{ code: number | null; signal: string | null }> {
  return new Promise((resolve, reject) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
    child.once("error", (error) => reject(notStarted(error)));
  });
}

/** Ends the group at the timeout or on abort: first by asking, then by force. */
function endInTime(child: ChildProcess, request: ProcessRequest): { timedOut: () => boolean; stop: () => void } {
  let timedOut = false;
  let force: NodeJS.Timeout | undefined;
  const end = (): void => {
    killGroup(child, "SIGTERM");
    force ??= setTimeout(() => killGroup(child, "SIGKILL"), request.killAfterMs);
  };
  const timer = setTimeout(() => {
    timedOut = true;
    end();
  }, request.timeoutMs);
  request.signal.addEventListener("abort", end, { once: true });
  if (request.signal.aborted) end();
  return {
    timedOut: () => timedOut,
    stop: () => {
      clearTimeout(timer);
      clearTimeout(force);
      request.signal.removeEventListener("abort", end);
    },
  };
}

function killGroup(child: ChildProcess, signal: "SIGTERM" | "SIGKILL"): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, signal);
  } catch {
    // The group is gone.
  }
}
