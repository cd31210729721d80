import { type ChildProcess, fork } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { DroverError } from "../core/errors.ts";
import { type Relay, startRelay } from "./relay.ts";
import { type WorkerOptions, workerVariable } from "./worker.ts";

/** How a worker is started: a program that calls `runChaosWorker`. */
export type Program = { file: string; args: readonly string[] };

export type CrewOptions = {
  count: number;
  program: Program;
  redis: () => string | undefined;
  worker: Omit<WorkerOptions, "redisUrl">;
};

/** Worker processes in places; whoever leaves a place is followed by another. */
export type Crew = {
  relays: readonly Relay[];
  kill(place: number): boolean;
  /** Freezes it for so long. */
  pause(place: number, forMs: number): boolean;
  /** Asks it to stop in order. */
  stop(place: number): boolean;
  pids(): number[];
  /** How many take steps. */
  atWork(): number;
  /** Resolves when every place has a worker that takes steps and none is frozen. */
  settled(): Promise<void>;
  /** Workers that ended though nothing was done to them, in words. */
  deserters(): readonly string[];
  close(): Promise<void>;
};

/** Grace and what it takes to close, on a machine that is busy. */
const stopTimeoutMs = 30_000;
const readyTimeoutMs = 60_000;
const mostDeserters = 20;

type Member = {
  child: ChildProcess;
  ready: Promise<void>;
  isReady: boolean;
  doomed: boolean;
  frozen: boolean;
  said: string;
};

export async function startCrew(options: CrewOptions): Promise<Crew> {
  const relays = await Promise.all(Array.from({ length: options.count }, () => startRelay(options.redis)));
  const members: Member[] = [];
  const deserters: string[] = [];
  let closing = false;

  function enlist(place: number): Member {
    const relay = relays[place] as Relay;
    const child = launch(options, relay.url);
    const member: Member = { child, ready: Promise.resolve(), isReady: false, doomed: false, frozen: false, said: "" };
    child.stderr?.on("data", (chunk: Buffer) => {
      member.said = (member.said + chunk.toString()).slice(-2_000);
    });
    member.ready = new Promise((resolve) => {
      child.on("message", (message) => {
        if (message !== "ready") return;
        member.isReady = true;
        resolve();
      });
      child.once("exit", () => resolve());
    });
    child.once("exit", (code, signal) => {
      if (!member.doomed && !closing) {
        deserters.push(`a worker ended by itself (${signal ?? `code ${code}`}): ${member.said.trim().slice(-600)}`);
      }
      if (closing || deserters.length > mostDeserters) return;
      members[place] = enlist(place);
    });
    return member;
  }

  function send(place: number, signal: NodeJS.Signals): Member | undefined {
    const member = members[place];
    if (!member?.isReady || member.doomed || member.frozen) return undefined;
    member.child.kill(signal);
    return member;
  }

  for (let place = 0; place < options.count; place += 1) members.push(enlist(place));
  const crew: Crew = {
    relays,
    kill(place) {
      const member = send(place, "SIGKILL");
      if (member) member.doomed = true;
      return member !== undefined;
    },
    pause(place, forMs) {
      const member = send(place, "SIGSTOP");
      if (!member) return false;
      member.frozen = true;
      setTimeout(() => {
        member.frozen = false;
        member.child.kill("SIGCONT");
      }, forMs);
      return true;
    },
    stop(place) {
      const member = send(place, "SIGTERM");
      if (!member) return false;
      member.doomed = true;
      const timer = setTimeout(() => {
        deserters.push(
          `a worker that was told to stop did not within ${stopTimeoutMs / 1_000} s: ${member.said.trim().slice(-600)}`,
        );
        member.child.kill("SIGKILL");
      }, stopTimeoutMs);
      member.child.once("exit", () => clearTimeout(timer));
      return true;
    },
    atWork: () => members.filter(({ isReady, doomed, frozen }) => isReady && !doomed && !frozen).length,
    pids: () => members.map(({ child }) => child.pid ?? 0),
    async settled() {
      const until = performance.now() + readyTimeoutMs;
      while (!members.every(({ isReady, doomed, frozen }) => isReady && !doomed && !frozen)) {
        if (performance.now() > until || deserters.length > mostDeserters) {
          const said = members.map((member) => member.said.trim()).find((text) => text !== "") ?? "";
          throw new DroverError("unsupported", `The workers do not start. ${deserters.at(-1) ?? said}`);
        }
        await sleep(20);
      }
    },
    deserters: () => deserters,
    async close() {
      closing = true;
      await Promise.all(members.map(({ child }) => end(child)));
      await Promise.all(relays.map((relay) => relay.close()));
    },
  };
  return crew;
}

function launch({ program, worker }: CrewOptions, redisUrl: string): ChildProcess {
  const options: WorkerOptions = { ...worker, redisUrl };
  // What the user's own settings export goes nowhere: these runs are not theirs.
  const own = Object.entries(process.env).filter(([name]) => !/^(OTEL_|DROVER_(?!REDACT)|REDIS_URL)/.test(name));
  return fork(program.file, [...program.args], {
    env: {
      ...Object.fromEntries(own),
      [workerVariable]: JSON.stringify(options),
      // Hundreds of processes start from the same files.
      NODE_COMPILE_CACHE: join(worker.dir, "compile-cache"),
    },
    execArgv: process.execArgv.filter((argument) => !argument.startsWith("--inspect")),
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGKILL");
  await exited;
}
