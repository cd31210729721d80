import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { DroverError } from "../core/errors.ts";
import { withFileLock } from "./file-lock.ts";
import { findServer, type Machine, servers, thisMachine } from "./find-server.ts";
import { isAlive, probe, shutdown } from "./probe.ts";

// A private Redis for one directory: append-only file, no eviction, a unix socket that only this user can open, and no
// port. It ends with the process that started it, however that one ends: a watchdog shell holds a pipe to it.

/** A private Redis. `stop` ends it if this process owns it; safe to call twice. */
export type EmbeddedRedis = {
  /** unix:///... */
  url: string;
  /** False: it was started by another process that is still there, and `stop` leaves it alone. */
  owned: boolean;
  serverPid: number;
  stop(): Promise<void>;
};

export type EmbeddedRedisOptions = {
  /** Where data, socket and state are kept; default ".drover". */
  dir?: string;
  /** Told in one line each what takes long; default: nothing. */
  log?: (line: string) => void;
  machine?: Machine;
};

/** Kept beside the data, so that other processes find the server. */
type State = { socketPath: string; serverPid: number; ownerPid: number };

// A socket's path may have 108 bytes on Linux and 104 on macOS, the final zero included.
const maxSocketPath = 100;
const startTimeoutMs = 30_000;

/**
 * Starts a private Redis in `dir`, or joins the one that runs there. One whose owner was killed is ended first: it is about
 * to end by itself, and whoever joined it now would lose it a moment later.
 *
 * @throws DroverError "unsupported" when there is no server program or it does not start, "timeout" when a server of
 * an earlier process neither answers nor ends.
 */
export async function startEmbeddedRedis(options: EmbeddedRedisOptions = {}): Promise<EmbeddedRedis> {
  const dir = resolve(options.dir ?? ".drover");
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  return withFileLock(join(dir, "redis.lock"), startTimeoutMs + 5000, async () => {
    const running = await joinRunning(dir);
    if (running) return running;
    const program = await findServer(options.machine ?? thisMachine(), options.log ?? (() => {}));
    return start(dir, program);
  });
}

/** The URL of the private Redis that runs in `dir`, if one does. Starts nothing. */
export async function findEmbeddedRedis(dir: string = ".drover"): Promise<string | undefined> {
  const state = readState(resolve(dir));
  if (!state) return undefined;
  const found = await probe(state.socketPath);
  return found.type === "up" && found.pid === state.serverPid ? toUrl(state.socketPath) : undefined;
}

async function joinRunning(dir: string): Promise<EmbeddedRedis | undefined> {
  const state = readState(dir);
  if (!state) return undefined;
  const until = performance.now() + startTimeoutMs;
  // A server that loads its data, or is about to end, is waited for: two on the same files ruin them.
  while (performance.now() < until) {
    const found = await probe(state.socketPath);
    if (found.type === "up" && found.pid === state.serverPid) {
      if (isAlive(state.ownerPid)) return toJoined(state);
      await shutdown(state.socketPath);
    }
    if (found.type === "down" && !isServer(state.serverPid)) return undefined;
    await sleep(50);
  }
  throw new DroverError(
    "timeout",
    `the private Redis of ${dir} (process ${state.serverPid}) does not answer: end it with "kill ${state.serverPid}" and try again`,
  );
}

/** Its owner ends it. */
function toJoined({ socketPath, serverPid }: State): EmbeddedRedis {
  return { url: toUrl(socketPath), owned: false, serverPid, stop: async () => {} };
}

async function start(dir: string, program: string): Promise<EmbeddedRedis> {
  const dataDir = join(dir, "redis");
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const logFile = join(dir, "redis.log");
  rmSync(logFile, { force: true });
  const socketPath = chooseSocketPath(dir);
  const child = spawnWatched(program, toSettings({ dataDir, logFile, socketPath }));
  const exited = new Promise<void>((done) => {
    child.once("exit", () => done());
    child.once("error", () => done());
  });
  const serverPid = await untilUp(socketPath, child);
  if (serverPid === undefined) {
    child.stdin?.end();
    await exited;
    clean(dir, { socketPath, serverPid: 0, ownerPid: process.pid });
    throw new DroverError("unsupported", `${program} did not start: ${lastLine(logFile)} (see ${logFile})`);
  }
  const state: State = { socketPath, serverPid, ownerPid: process.pid };
  writeState(dir, state);
  const stop = once(async () => {
    child.ref(); // or a process with nothing else to do would end before the server has
    child.stdin?.end();
    await exited;
    clean(dir, state);
  });
  return { url: toUrl(socketPath), owned: true, serverPid, stop };
}

function toSettings(at: { dataDir: string; logFile: string; socketPath: string }): string[] {
  return Object.entries({
    port: "0",
    unixsocket: at.socketPath,
    unixsocketperm: "700",
    dir: at.dataDir,
    logfile: at.logFile,
    appendonly: "yes",
    appendfsync: "everysec",
    "maxmemory-policy": "noeviction",
    save: "",
    daemonize: "no",
  }).flatMap(([name, value]) => [`--${name}`, value]);
}

// The reader's end of input is the owner's end, even a kill -9: then the server is told to end. If the server ends
// first, its reader is stopped, so that no other process that got its id is ever signalled.
const watchdog = `exec 3<&0
"$@" </dev/null 3<&- & server=$!
(read -r _ <&3; kill "$server") >/dev/null 2>&1 & reader=$!
exec 3<&-
wait "$server"; code=$?
kill "$reader" 2>/dev/null
exit "$code"`;

function spawnWatched(program: string, args: string[]): ChildProcess {
  const child = spawn("/bin/sh", ["-c", watchdog, "drover-redis", program, ...args], {
    // A group of its own: Ctrl-C in the terminal is for the owner, which ends the server last.
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  child.stdin?.on("error", () => {
    // The server ended first; "exit" tells.
  });
  child.unref();
  (child.stdin as unknown as { unref?: () => void } | null)?.unref?.();
  return child;
}

async function untilUp(socketPath: string, child: ChildProcess): Promise<number | undefined> {
  let ended = false;
  child.once("exit", () => {
    ended = true;
  });
  const until = performance.now() + startTimeoutMs;
  while (!ended && performance.now() < until) {
    const found = await probe(socketPath);
    if (found.type === "up") return found.pid;
    await sleep(10);
  }
  return undefined;
}

/** Whether the process exists and is a server, not a stranger that was given the same id later. */
function isServer(pid: number): boolean {
  if (!isAlive(pid)) return false;
  try {
    // More is not sure: before 6.2 the title that a server gives itself has nothing of its socket.
    const title = readFileSync(`/proc/${pid}/cmdline`, "utf8");
    return servers.some((name) => title.includes(name));
  } catch {
    // No /proc (macOS), or it ended just now: take the careful answer where it still exists.
    return isAlive(pid);
  }
}

function chooseSocketPath(dir: string): string {
  const path = join(dir, "redis.sock");
  // ioredis takes what follows a question mark for options.
  const usable = Buffer.byteLength(path) <= maxSocketPath && !path.includes("?");
  return usable ? path : join(mkdtempSync(join(tmpdir(), "drover-")), "redis.sock");
}

function toUrl(socketPath: string): string {
  return `unix://${pathToFileURL(socketPath).pathname}`;
}

const stateFile = (dir: string): string => join(dir, "redis.json");

function readState(dir: string): State | undefined {
  try {
    const state: unknown = JSON.parse(readFileSync(stateFile(dir), "utf8"));
    return isState(state) ? state : undefined;
  } catch {
    return undefined;
  }
}

function isState(value: unknown): value is State {
  const state = value as Partial<State> | null;
  return typeof state?.socketPath === "string" && Number.isInteger(state.serverPid) && Number.isInteger(state.ownerPid);
}

function writeState(dir: string, state: State): void {
  const aside = `${stateFile(dir)}.${process.pid}`;
  writeFileSync(aside, JSON.stringify(state), { mode: 0o600 });
  renameSync(aside, stateFile(dir));
}

function clean(dir: string, state: State): void {
  if (readState(dir)?.serverPid === state.serverPid) rmSync(stateFile(dir), { force: true });
  rmSync(state.socketPath, { force: true });
  if (dirname(state.socketPath) !== dir) rmSync(dirname(state.socketPath), { recursive: true, force: true });
}

function lastLine(file: string): string {
  try {
    return readFileSync(file, "utf8").trim().split("\n").at(-1) ?? "";
  } catch {
    return "it wrote no log";
  }
}

function once(fn: () => Promise<void>): () => Promise<void> {
  let result: Promise<void> | undefined;
  return () => {
    result ??= fn();
    return result;
  };
}
