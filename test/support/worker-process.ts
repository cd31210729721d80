import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { onTestFailed, onTestFinished } from "vitest";
import { type E2eOptions, e2eVariable } from "./e2e-options.ts";

export type Exit = { code: number | null; signal: NodeJS.Signals | null /** Epoch ms. */; at: number };

/** A worker in a process of its own. It ends with the test; its output is shown only if the test fails. */
export type WorkerProcess = {
  pid: number;
  exit: Promise<Exit>;
  exited(): boolean;
  /** All it printed, once it has ended. */
  printed: Promise<string>;
  /** All it printed so far. */
  output(): string;
  /** Its log lines so far. */
  logLines(): string[];
  /** What it was sent by the methods below, in order. */
  signals(): readonly NodeJS.Signals[];
  /** It was told to kill itself somewhere. */
  hasKillPoint: boolean;
  /** Each sends a signal; epoch ms of that moment. */
  kill9(): number;
  stop(): number;
  resume(): number;
  terminate(): number;
};

const program = fileURLToPath(new URL("e2e-worker.ts", import.meta.url));
const serverProgram = fileURLToPath(new URL("server-program.ts", import.meta.url));
const cli = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));
const agentsFile = fileURLToPath(new URL("e2e-agents.ts", import.meta.url));

/** Starts a worker and resolves when it takes steps. Only inside a test. */
export async function startWorkerProcess(options: E2eOptions): Promise<WorkerProcess> {
  const heap = options.heapMb === undefined ? [] : [`--max-old-space-size=${options.heapMb}`];
  const { program: given = program, preload } = options;
  const preloaded = preload === undefined ? [] : ["--import", preload];
  const child = launch([...heap, ...preloaded, given], { [e2eVariable]: JSON.stringify(options) });
  const worker = await ready(child, (line) => line.includes('"type":"ready"'));
  return { ...worker, hasKillPoint: options.killAt !== undefined };
}

/** Starts `drover worker` with the agents of the tests and resolves when it takes steps. Only inside a test. */
export async function startCliWorker(options: E2eOptions): Promise<WorkerProcess> {
  return ready(launchCliWorker(options), (line) => /^worker \d+ ready/.test(line));
}

/** Starts a process that serves HTTP and resolves when it listens at `url`. Only inside a test. */
export async function startServerProcess(options: E2eOptions): Promise<WorkerProcess & { url: string }> {
  let url = "";
  const child = launch([serverProgram], { [e2eVariable]: JSON.stringify(options) });
  const server = await ready(child, (line) => {
    if (!line.includes('"type":"ready"')) return false;
    url = (JSON.parse(line) as { url: string }).url;
    return true;
  });
  return { ...server, url };
}

/** Starts `drover worker` and does not wait for it. Only inside a test. */
export function spawnCliWorker(options: E2eOptions): WorkerProcess {
  return watch(launchCliWorker(options)).worker;
}

function launchCliWorker(options: E2eOptions): ChildProcess {
  return launch([cli, "worker", agentsFile], {
    [e2eVariable]: JSON.stringify(options),
    REDIS_URL: options.redisUrl,
    DROVER_PREFIX: options.prefix,
    ...(options.shards === undefined ? {} : { DROVER_SHARDS: String(options.shards) }),
    ...options.env,
    ...(options.policy === undefined ? {} : { DROVER_POLICY: options.policy }),
    ...(options.graceMs === undefined ? {} : { DROVER_STOP_GRACE_MS: String(options.graceMs) }),
  });
}

const running = new Set<ChildProcess>();
// Nothing that a test forgets to stop outlives the test process.
process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

function launch(args: string[], env: Record<string, string>): ChildProcess {
  const { PATH = "", HOME = "", NODE_COMPILE_CACHE = "" } = process.env;
  const child = spawn(process.execPath, args, {
    env: { PATH, HOME, NODE_COMPILE_CACHE, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  running.add(child);
  child.once("exit", () => running.delete(child));
  return child;
}

type Watched = { worker: WorkerProcess; output: Output };
type Output = { text(): string; line(fits: (line: string) => boolean): Promise<string> };

function watch(child: ChildProcess): Watched {
  const startedAt = Date.now();
  const output = collect(child);
  const exit = new Promise<Exit>((resolve, reject) => {
    child.once("exit", (code, signal) => resolve({ code, signal, at: Date.now() }));
    child.once("error", reject);
  });
  const signals: NodeJS.Signals[] = [];
  const send = (signal: NodeJS.Signals): number => {
    signals.push(signal);
    child.kill(signal);
    return Date.now();
  };
  const exited = (): boolean => child.exitCode !== null || child.signalCode !== null;
  onTestFailed(() => {
    process.stderr.write(
      `--- worker ${child.pid}, started ${new Date(startedAt).toISOString()}\n${output.text()}---\n`,
    );
  });
  onTestFinished(async () => {
    if (!exited()) send("SIGKILL");
    await exit;
  });
  const worker: WorkerProcess = {
    pid: child.pid ?? 0,
    exit,
    exited,
    printed: new Promise((resolve) => child.once("close", () => resolve(output.text()))),
    output: output.text,
    signals: () => signals,
    hasKillPoint: false,
    logLines: () =>
      output
        .text()
        .split("\n")
        .filter((line) => line.startsWith('{"level"')),
    kill9: () => send("SIGKILL"),
    stop: () => send("SIGSTOP"),
    resume: () => send("SIGCONT"),
    terminate: () => send("SIGTERM"),
  };
  return { worker, output };
}

async function ready(child: ChildProcess, isReady: (line: string) => boolean): Promise<WorkerProcess> {
  const { worker, output } = watch(child);
  const died = worker.exit.then(({ code, signal }) => {
    throw new Error(`the worker ended before it was ready (${signal ?? code}):\n${output.text()}`);
  });
  died.catch(() => {}); // Once it is ready, its end is the test's to judge.
  await Promise.race([output.line(isReady), died]);
  return worker;
}

/** Everything a process prints, and its lines as they come. */
function collect(child: ChildProcess): Output {
  let text = "";
  const watchers = new Set<(line: string) => void>();
  for (const stream of [child.stdout, child.stderr]) {
    let rest = "";
    stream?.setEncoding("utf8").on("data", (piece: string) => {
      text += piece;
      const lines = `${rest}${piece}`.split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) for (const look of watchers) look(line);
    });
  }
  return {
    text: () => text,
    line: (fits) =>
      new Promise((resolve) => {
        const look = (line: string): void => {
          if (!fits(line)) return;
          watchers.delete(look);
          resolve(line);
        };
        watchers.add(look);
      }),
  };
}
