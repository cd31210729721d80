import { type ChildProcess, fork } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { DroverError } from "../core/errors.ts";
import type { Frozen } from "./evidence.ts";
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
  /** Who was frozen and when; of one that still is, without an end. */
  frozen(): readonly Frozen[];
  /** How many take steps. */
  atWork(): number;
  /** Resolves when every place has a worker that takes steps and none is frozen, or as soon as nobody wants to know any more. */
  settled(signal?: AbortSignal): Promise<void>;
  /** Workers that ended though nothing was done to them, in words. */
  deserters(): readonly string[];
  close(): Promise<void>;
  /** For a process that ends at once: nothing is awaited, and nobody follows. */
  killAll(): void;
};

/** Grace and what it takes to close, on a machine that is busy. */
const stopTimeoutMs = 30_000;
const readyTimeoutMs = 60_000;
const mostDeserters = 20;

type Member = { child: ChildProcess; isReady: boolean; doomed: boolean; frozen: boolean; said: string };

/** Who is in which place. */
type Company = {
  members: Member[];
  deserters: string[];
  frozen: Frozen[];
  /** Nobody follows any more. */
  dismissed: boolean;
};

export async function startCrew(options: CrewOptions): Promise<Crew> {
  const relays = await Promise.all(Array.from({ length: options.count }, () => startRelay(options.redis)));
  const company: Company = { members: [], deserters: [], frozen: [], dismissed: false };
  const { deserters } = company;
  relays.forEach((relay, place) => enlist(options, company, { place, url: relay.url }));
  const isAtWork = ({ isReady, doomed, frozen }: Member): boolean => isReady && !doomed && !frozen;
  /** To one that is at work. */
  const send = (place: number, signal: NodeJS.Signals): Member | undefined => {
    const member = company.members[place];
    if (!member || !isAtWork(member)) return undefined;
    member.child.kill(signal);
    return member;
  };
  return {
    relays,
    kill(place) {
      const member = send(place, "SIGKILL");
      if (member) member.doomed = true;
      return member !== undefined;
    },
    pause(place, forMs) {
      const member = send(place, "SIGSTOP");
      if (!member) return false;
      freeze(member, company, forMs);
      return true;
    },
    stop(place) {
      const member = send(place, "SIGTERM");
      if (member) awaitStop(member, deserters);
      return member !== undefined;
    },
    atWork: () => company.members.filter(isAtWork).length,
    frozen: () => company.frozen,
    pids: () => company.members.map(({ child }) => child.pid ?? 0),
    async settled(signal) {
      const until = performance.now() + readyTimeoutMs;
      while (!signal?.aborted && !company.members.every(isAtWork)) {
        if (performance.now() > until || deserters.length > mostDeserters) {
          const said = company.members.map((member) => member.said.trim()).find((text) => text !== "") ?? "";
          throw new DroverError("unsupported", `The workers do not start. ${deserters.at(-1) ?? said}`);
        }
        await sleep(20);
      }
    },
    deserters: () => deserters,
    async close() {
      company.dismissed = true;
      await Promise.all(company.members.map(({ child }) => end(child)));
      await Promise.all(relays.map((relay) => relay.close()));
    },
    killAll() {
      company.dismissed = true;
      for (const { child } of company.members) child.kill("SIGKILL");
    },
  };
}

function freeze(member: Member, { frozen }: Company, forMs: number): void {
  const one = { pid: member.child.pid ?? 0, from: Date.now(), to: Number.POSITIVE_INFINITY };
  frozen.push(one);
  member.frozen = true;
  setTimeout(() => {
    member.frozen = false;
    member.child.kill("SIGCONT");
    one.to = Date.now();
  }, forMs);
}

function enlist(options: CrewOptions, company: Company, { place, url }: { place: number; url: string }): void {
  const child = launch(options, url);
  const member: Member = { child, isReady: false, doomed: false, frozen: false, said: "" };
  company.members[place] = member;
  child.stderr?.on("data", (chunk: Buffer) => {
    member.said = (member.said + chunk.toString()).slice(-2_000);
  });
  // One that could not be started at all has no end to be told of.
  child.on("error", ({ message }) => {
    member.said += message;
  });
  child.on("message", (message) => {
    member.isReady ||= message === "ready";
  });
  child.once("exit", (code, signal) => {
    if (company.dismissed) return;
    const { deserters } = company;
    if (!member.doomed) {
      deserters.push(`a worker ended by itself (${signal ?? `code ${code}`}): ${member.said.trim().slice(-600)}`);
    }
    if (deserters.length <= mostDeserters) enlist(options, company, { place, url });
  });
}

function awaitStop(member: Member, deserters: string[]): void {
  member.doomed = true;
  const timer = setTimeout(() => {
    const said = member.said.trim().slice(-600);
    deserters.push(`a worker that was told to stop did not within ${stopTimeoutMs / 1_000} s: ${said}`);
    member.child.kill("SIGKILL");
  }, stopTimeoutMs);
  member.child.once("exit", () => clearTimeout(timer));
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
