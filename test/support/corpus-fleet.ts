import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { createDrover, type Drover } from "../../src/drover.ts";
import type { RunHandle } from "../../src/engine/run-handle.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { type CorpusRun, judge } from "../corpus/check.mjs";
import { type CorpusServer, start } from "../corpus/serve.mjs";
import type { CorpusCase } from "./corpus-cases.ts";
import type { CorpusWorkerOptions } from "./corpus-worker.ts";
import { deletePrefix, testPrefix } from "./redis.ts";

export type Form = "stream" | "whole";
/** What came of a case in one form. `pids`: the processes that executed its tools. */
export type Verdict = { kase: CorpusCase; form: Form; fails: string[]; notes: string[]; pids: number[] };

const executionSchema = z.object({
  runId: z.string(),
  callId: z.string(),
  name: z.string(),
  args: z.unknown(),
  pid: z.int(),
});
type Execution = z.infer<typeof executionSchema>;
type Task = { kase: CorpusCase; form: Form; agent: string; server: CorpusServer };

const program = fileURLToPath(new URL("corpus-worker.ts", import.meta.url));

/** Runs every case in both forms through worker processes on a real Redis, many at a time. */
export async function runCorpus(
  cases: readonly CorpusCase[],
  { redisUrl, workers, atOnce }: { redisUrl: string; workers: number; atOnce: number },
): Promise<Verdict[]> {
  const prefix = testPrefix();
  const dir = mkdtempSync(join(tmpdir(), "drover-corpus-"));
  const executions = join(dir, "executions.jsonl");
  const drover = createDrover({ redis: redisUrl, prefix, logger: createSilentLogger() });
  const tasks: Task[] = [];
  const children: ChildProcess[] = [];
  try {
    for (const kase of cases) {
      for (const form of ["stream", "whole"] as const) {
        tasks.push({ kase, form, agent: `${kase.id}.${form}`, server: await start(kase) });
      }
    }
    const agents = tasks.map(({ kase, form, agent, server }) => {
      return { name: agent, caseId: kase.id, baseURL: server.url, stream: form === "stream" };
    });
    const options: CorpusWorkerOptions = { redisUrl, prefix, executions, agents };
    children.push(...Array.from({ length: workers }, () => launch(options)));
    await Promise.all(children.map(ready));
    return await performAll(drover, tasks, { executions, atOnce });
  } finally {
    await Promise.all(children.map(end));
    await drover.close();
    await Promise.all(tasks.map(({ server }) => server.close()));
    await deletePrefix(redisUrl, prefix);
    rmSync(dir, { recursive: true, force: true });
  }
}

function launch(options: CorpusWorkerOptions): ChildProcess {
  const { PATH = "", HOME = "", DROVER_CORPUS = "" } = process.env;
  const env = { PATH, HOME, DROVER_CORPUS, DROVER_CORPUS_WORKER: JSON.stringify(options) };
  return spawn(process.execPath, [program], { env, stdio: ["ignore", "pipe", "inherit"] });
}

async function ready(child: ChildProcess): Promise<void> {
  const died = once(child, "exit").then(([code]) => {
    throw new Error(`a worker of the corpus ended before it was ready (${String(code)})`);
  });
  died.catch(() => {}); // Once it is ready, its end is ours.
  if (child.stdout) await Promise.race([once(child.stdout, "data"), died]);
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}

async function performAll(
  drover: Drover,
  tasks: readonly Task[],
  { executions, atOnce }: { executions: string; atOnce: number },
): Promise<Verdict[]> {
  const left = [...tasks];
  const verdicts: Verdict[] = [];
  const lane = async (): Promise<void> => {
    for (let task = left.shift(); task; task = left.shift()) verdicts.push(await perform(drover, task, executions));
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
  return verdicts.sort((a, b) => (a.kase.id < b.kase.id ? -1 : 1));
}

async function perform(drover: Drover, { kase, form, agent, server }: Task, file: string): Promise<Verdict> {
  const run = await drover.start(agent, kase.input);
  const ended = await endOf(run, kase.config.deadlineMs);
  const executed = readExecutions(file).filter(({ runId }) => runId === run.id);
  // Calls of one turn run side by side, in whichever process: their order is that of their names.
  executed.sort((a, b) => a.callId.localeCompare(b.callId, "en", { numeric: true }));
  const result: CorpusRun = { ...ended, executed: executed.map(({ name, args }) => ({ name, args })) };
  const { fails, notes } = judge(kase, server.records, result);
  return { kase, form, fails, notes, pids: executed.map(({ pid }) => pid) };
}

async function endOf(run: RunHandle, timeoutMs: number): Promise<Omit<CorpusRun, "executed">> {
  try {
    const { status, output, error } = await run.result({ timeoutMs });
    const told = error ? `${error.code}: ${error.message}` : "";
    return { outcome: status === "completed" ? "completed" : "failed", finalText: output ?? "", error: told };
  } catch {
    const { status } = await run.status();
    return { outcome: "waiting", finalText: "", error: `the run is ${status} after ${timeoutMs} ms` };
  }
}

function readExecutions(file: string): Execution[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, "utf8").split("\n");
  return lines.filter((line) => line !== "").map((line) => executionSchema.parse(JSON.parse(line)));
}
