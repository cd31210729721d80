import { spawn } from "node:child_process";
import { accessSync, constants, readFileSync, statSync } from "node:fs";
import { delimiter, join } from "node:path";
import { DroverError } from "../core/errors.ts";

/** What finding a server depends on; given by tests, taken from the machine otherwise. */
export type Machine = {
  /** Directories as in the variable PATH. */
  path: string;
  /** Numeric user id, undefined where there is none. */
  uid: number | undefined;
  /** Content of /etc/os-release, empty where there is none. */
  osRelease: string;
};

/** The machine this process runs on. */
export function thisMachine(): Machine {
  let osRelease = "";
  try {
    osRelease = readFileSync("/etc/os-release", "utf8");
  } catch {
    // Not a Linux with that file: nothing is installed there.
  }
  return { path: process.env.PATH ?? "", uid: process.getuid?.(), osRelease };
}

/** The first of the programs found on PATH, as an absolute path. */
function findProgram(names: readonly string[], path: string): string | undefined {
  const dirs = path.split(delimiter).filter((dir) => dir !== "");
  for (const name of names) {
    for (const dir of dirs) {
      const file = join(dir, name);
      try {
        accessSync(file, constants.X_OK);
        if (statSync(file).isFile()) return file;
      } catch {
        // Not here.
      }
    }
  }
  return undefined;
}

/** Programs that will do, the first of them first. */
export const servers = ["redis-server", "valkey-server"] as const;

/** Whether the distribution is Debian, Ubuntu or made from one of them. */
function isDebianLike(osRelease: string): boolean {
  const ids = [...osRelease.matchAll(/^ID(?:_LIKE)?=(.*)$/gm)].flatMap((match) =>
    (match[1] ?? "").replaceAll(/["']/g, "").trim().split(/\s+/),
  );
  return ids.includes("debian") || ids.includes("ubuntu");
}

/**
 * A Redis or Valkey server program. Where there is none, it is installed as root on Debian and Ubuntu.
 *
 * @param log told in one line what is installed and how it went.
 * @throws DroverError "unsupported" with the command that installs one.
 */
export async function findServer(machine: Machine, log: (line: string) => void): Promise<string> {
  const found = findProgram(servers, machine.path);
  if (found) return found;
  const aptGet = findProgram(["apt-get"], machine.path);
  if (machine.uid === 0 && aptGet && isDebianLike(machine.osRelease)) {
    log("No redis-server on this machine: installing it from the distribution (apt-get install redis-server) ...");
    const startedAt = performance.now();
    const trouble = await install(aptGet, machine.path);
    const installed = findProgram(servers, machine.path);
    if (installed) {
      log(`Installed ${installed} in ${((performance.now() - startedAt) / 1000).toFixed(1)} s.`);
      return installed;
    }
    throw new DroverError("unsupported", `redis-server could not be installed: ${trouble}\n${howToInstall}`);
  }
  throw new DroverError("unsupported", `there is neither redis-server nor valkey-server on PATH\n${howToInstall}`);
}

const howToInstall = [
  "Install one, or set REDIS_URL to a Redis that runs elsewhere:",
  "  Debian, Ubuntu   sudo apt-get install -y redis-server",
  "  macOS            brew install redis",
  "  Docker           docker compose up -d redis && export REDIS_URL=redis://localhost:6379",
].join("\n");

/** Resolves to what went wrong last, empty when nothing did. */
async function install(aptGet: string, path: string): Promise<string> {
  // The package lists of a fresh image are empty; a failed update may still leave usable ones.
  await run(aptGet, ["update"], path);
  return run(aptGet, ["install", "-y", "--no-install-recommends", "redis-server"], path);
}

function run(program: string, args: string[], path: string): Promise<string> {
  return new Promise((resolve) => {
    const child = spawn(program, args, {
      // RUNLEVEL 1 keeps the package from starting a server of its own beside ours.
      env: { ...process.env, PATH: path, DEBIAN_FRONTEND: "noninteractive", RUNLEVEL: "1" },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let tail = "";
    const keep = (chunk: Buffer): void => {
      tail = (tail + chunk.toString()).slice(-2000);
    };
    child.stdout.on("data", keep);
    child.stderr.on("data", keep);
    child.on("error", (error) => resolve(error.message));
    child.on("close", (code) => {
      const lastLine = tail.trim().split("\n").at(-1) ?? "";
      resolve(code === 0 ? "" : `${args[0]} ended with code ${code}: ${lastLine}`);
    });
  });
}
