import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { onTestFailed, onTestFinished } from "vitest";
import { z } from "zod";

export const embedderSchema = z.object({
  redisUrl: z.string(),
  prefix: z.string(),
  baseURL: z.string(),
  ledgerDir: z.string(),
  /** Its logger, its telemetry and its other handlers throw. */
  hostile: z.boolean().default(false),
});
export type EmbedderOptions = z.input<typeof embedderSchema>;

/** A program that has Drover inside, as `embedder.ts` says. */
export type Embedder = {
  /** Has it start a run and resolves with whether it could. */
  start(runId: string, input: string): Promise<boolean>;
  /** All it printed so far. */
  output(): string;
  exited(): boolean;
  /** Sends SIGTERM and resolves with its exit code. */
  end(): Promise<number | null>;
};

const program = fileURLToPath(new URL("embedder.ts", import.meta.url));
const replySchema = z.object({ runId: z.string(), started: z.boolean() });

/** Starts the program and resolves when its worker takes steps. Only inside a test. */
export async function startEmbedder(options: EmbedderOptions): Promise<Embedder> {
  const { PATH = "", HOME = "" } = process.env;
  const child = fork(program, {
    env: { PATH, HOME, DROVER_EMBEDDER: JSON.stringify(options) },
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  const output = collect(child);
  const closed = once(child, "close");
  const exited = (): boolean => child.exitCode !== null || child.signalCode !== null;
  onTestFailed(() => {
    process.stderr.write(`--- embedder ${child.pid}\n${output().slice(-20_000)}---\n`);
  });
  onTestFinished(async () => {
    if (!exited()) child.kill("SIGKILL");
    await closed;
  });
  const first = await Promise.race([once(child, "message"), closed]);
  if (exited()) throw new Error(`the program ended with ${String(first[0])} before it was ready:\n${output()}`);
  return {
    async start(runId, input) {
      const reply = Promise.withResolvers<boolean>();
      const listen = (message: unknown): void => {
        const told = replySchema.parse(message);
        if (told.runId === runId) reply.resolve(told.started);
      };
      child.on("message", listen);
      child.send({ runId, input });
      const gone = closed.then(() => Promise.reject(new Error("the program ended")));
      return Promise.race([reply.promise, gone]).finally(() => child.off("message", listen));
    },
    output,
    exited,
    async end() {
      child.kill("SIGTERM");
      const [code] = (await closed) as [number | null];
      return code;
    },
  };
}

function collect(child: ChildProcess): () => string {
  let text = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (piece: string) => {
      text += piece;
    });
  }
  return () => text;
}
