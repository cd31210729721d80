import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { onTestFailed, onTestFinished } from "vitest";
import { z } from "zod";
import type { TraceCommand, TraceOptions } from "./trace-program.ts";

/** A process of the trace tests. It ends with the test; what it printed is shown only if the test fails. */
export type TraceProcess = {
  pid: number;
  /** Has it do something and resolves with what came of it. */
  ask(command: TraceCommand): Promise<unknown>;
  /** Stops in order, sending what spans are left, and resolves when the process has ended. */
  stop(): Promise<void>;
  /** Resolves when it is dead. */
  kill9(): Promise<void>;
  /** All of its standard output and standard error. */
  output(): string;
};

const program = fileURLToPath(new URL("trace-program.ts", import.meta.url));
const replySchema = z.object({ id: z.int(), value: z.unknown().optional(), error: z.string().optional() });

/**
 * Starts a worker or a producer and resolves when it can be used. Only inside a test.
 *
 * @param env the `OTEL_*` variables; nothing but these, PATH and HOME reaches the process.
 */
export async function startTraceProcess(options: TraceOptions, env: Record<string, string>): Promise<TraceProcess> {
  const { PATH = "", HOME = "" } = process.env;
  const child = fork(program, {
    env: { PATH, HOME, ...env, DROVER_TRACE_TEST: JSON.stringify(options) },
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (piece: string) => {
      output += piece;
    });
  }
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  const expectReply = (id: number): Promise<unknown> => {
    const reply = Promise.withResolvers<unknown>();
    waiting.set(id, reply);
    return reply.promise;
  };
  child.on("message", (message) => {
    const { id, value, error } = replySchema.parse(message);
    if (error === undefined) waiting.get(id)?.resolve(value);
    else waiting.get(id)?.reject(new Error(error));
    waiting.delete(id);
  });
  const exit = new Promise<void>((resolve) => {
    // `close` comes after the last of its output.
    child.once("close", (code, signal) => {
      for (const reply of waiting.values())
        reply.reject(new Error(`the process ended (${signal ?? code}):\n${output}`));
      resolve();
    });
  });
  onTestFailed(() => {
    process.stderr.write(`--- process ${child.pid}\n${output}---\n`);
  });
  const kill9 = (): Promise<void> => {
    child.kill("SIGKILL");
    return exit;
  };
  onTestFinished(kill9);
  let last = 0;
  const ask = (command: TraceCommand): Promise<unknown> => {
    last += 1;
    const reply = expectReply(last);
    child.send({ id: last, command });
    return reply;
  };
  await expectReply(0);
  return {
    pid: child.pid ?? 0,
    ask,
    async stop() {
      await ask({ type: "stop" });
      await exit;
    },
    kill9,
    output: () => output,
  };
}
