import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { DroverError } from "../../core/errors.ts";
import { readReport, type StageReport, type StageWord } from "./stage.ts";

/** One of the demo's worker processes. */
export type CrewMember = { name: string; pid: number; kill(): void; send(word: StageWord): void };

/** The demo's worker processes, which end with it. */
export type Crew = {
  members: readonly CrewMember[];
  /** What they wrote to standard error, which is for trouble alone. */
  trouble(): string;
  stop(): Promise<void>;
};

export type CrewOptions = {
  names: string[];
  redisUrl: string;
  prefix: string;
  /** Where the tools write. */
  dir: string;
  onReport: (member: CrewMember, report: StageReport) => void;
};

const readyTimeoutMs = 20_000;

/** Starts the workers; resolves when all of them take steps. @throws DroverError "unsupported" if one ends before */
export async function startCrew(options: CrewOptions): Promise<Crew> {
  const main = new URL(import.meta.url.endsWith(".ts") ? "../main.ts" : "../main.js", import.meta.url);
  const env = { ...process.env, REDIS_URL: options.redisUrl, DROVER_PREFIX: options.prefix };
  const children: ChildProcess[] = [];
  let trouble = "";
  const stop = async (): Promise<void> => {
    await Promise.all(children.map(end));
  };
  try {
    const started = options.names.map((name) => {
      const child = fork(fileURLToPath(main), ["demo-worker", options.dir], {
        env,
        stdio: ["ignore", "ignore", "pipe", "ipc"],
      });
      children.push(child);
      child.stderr?.on("data", (chunk: Buffer) => {
        trouble = (trouble + chunk.toString()).slice(-4000);
      });
      return enlist(name, child, options.onReport);
    });
    const members = await Promise.all(started);
    return { members, trouble: () => trouble, stop };
  } catch (error) {
    await stop();
    const why = trouble.trim() === "" ? "" : ` It said: ${trouble.trim()}`;
    throw new DroverError("unsupported", `A worker of the demo did not start.${why}`, { cause: error });
  }
}

async function enlist(name: string, child: ChildProcess, onReport: CrewOptions["onReport"]): Promise<CrewMember> {
  const member: CrewMember = {
    name,
    pid: child.pid ?? 0,
    kill: () => void child.kill("SIGKILL"),
    send: (word) => {
      if (child.connected) child.send(word);
    },
  };
  const ready = new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("it was not ready in time")), readyTimeoutMs);
    child.on("message", (message) => {
      const report = readReport(message);
      if (report?.type === "ready") {
        clearTimeout(timer);
        resolve();
      } else if (report) onReport(member, report);
    });
    child.once("exit", (code, signal) => {
      clearTimeout(timer);
      reject(new Error(`it ended with ${signal ?? `code ${code}`}`));
    });
  });
  await ready;
  return member;
}

/** Asks a worker to stop, and makes it after three seconds. */
async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), 3000);
  await exited;
  clearTimeout(timer);
}
