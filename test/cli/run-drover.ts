import { type ChildProcess, spawn } from "node:child_process";
import { resolve } from "node:path";
import { afterAll, beforeAll, vi } from "vitest";

// Each command is a process, on a machine that may have others to run.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

export const mainFile: string = resolve("src/cli/main.ts");
export const fixture = (name: string): string => resolve("test/cli/fixtures", name);

export type CliOptions = {
  /** Added to an environment without any setting of Drover's. */
  env?: Record<string, string>;
  cwd?: string;
  input?: string;
  nodeArgs?: string[];
};
export type CliResult = { code: number | null; stdout: string; stderr: string };

/** A running command, its output so far, and its end. */
export type CliProcess = {
  child: ChildProcess;
  stdout(): string;
  stderr(): string;
  /** Resolves with the first match in standard output; rejects with all output if the process ends before. */
  untilOutput(pattern: RegExp): Promise<RegExpExecArray>;
  /** The same for standard error. */
  untilNote(pattern: RegExp): Promise<RegExpExecArray>;
  ended: Promise<CliResult>;
};

const foreign = /^(REDIS_URL|OPENAI_|DROVER_|OTEL_|NO_COLOR|FORCE_COLOR)/;

/** Starts `drover` from the checkout as a process of its own. */
export function startDrover(args: string[], options: CliOptions = {}): CliProcess {
  const kept = Object.entries(process.env).filter(([name]) => !foreign.test(name));
  const child = spawn(process.execPath, [...(options.nodeArgs ?? []), mainFile, ...args], {
    cwd: options.cwd,
    env: { ...Object.fromEntries(kept), ...options.env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  const listeners = new Set<() => void>();
  const notify = (): void => {
    for (const listener of listeners) listener();
  };
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
    notify();
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
    notify();
  });
  child.stdin.end(options.input ?? "");
  const ended = new Promise<CliResult>((done, fail) => {
    child.once("error", fail);
    child.once("close", (code) => {
      done({ code, stdout, stderr });
      notify();
    });
  });
  const until = (read: () => string, pattern: RegExp): Promise<RegExpExecArray> =>
    new Promise((found, fail) => {
      const look = (): void => {
        const match = pattern.exec(read());
        if (match) {
          listeners.delete(look);
          found(match);
        } else if (child.exitCode !== null || child.signalCode !== null) {
          void ended.then(() => {
            const late = pattern.exec(read());
            if (late) found(late);
            else fail(new Error(`it ended without ${pattern}:\n${stdout}\n${stderr}`));
          });
        }
      };
      listeners.add(look);
      look();
    });
  return {
    child,
    stdout: () => stdout,
    stderr: () => stderr,
    untilOutput: (pattern) => until(() => stdout, pattern),
    untilNote: (pattern) => until(() => stderr, pattern),
    ended,
  };
}

/** Runs `drover` to its end. */
export function runDrover(args: string[], options: CliOptions = {}): Promise<CliResult> {
  return startDrover(args, options).ended;
}

/** A worker of a fixture's agents for all tests of a file. */
export function useWorker(env: Record<string, string>, agents = "agents.ts"): void {
  let worker: CliProcess;
  beforeAll(async () => {
    worker = startDrover(["worker", fixture(agents)], { env });
    await worker.untilOutput(/ready/);
  });
  afterAll(async () => {
    worker.child.kill("SIGTERM");
    await worker.ended;
  });
}
