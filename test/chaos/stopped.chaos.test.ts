// Catches: a soak, a run of the chaos tests, a benchmark or the examples stopped in the middle that leave processes or a
// folder; one that was at random and does not say with which seed.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";

vi.setConfig({ testTimeout: 120_000 });

const patience = { timeout: 60_000, interval: 50 };

/** A script of ours whose temporary folders are all in one of the test's. */
function start(...args: string[]): { child: ChildProcess; dir: string; exit: Promise<number | null>; said(): string } {
  const dir = mkdtempSync(join(tmpdir(), "drover-s-"));
  const child = spawn(process.execPath, args, {
    env: { ...process.env, TMPDIR: dir, REDIS_URL: "" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (data: Buffer) => (said += data.toString()));
  const exit = new Promise<number | null>((resolve) => child.once("exit", resolve));
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await exit;
    rmSync(dir, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  });
  return { child, dir, exit, said: () => said };
}

/** Processes that satisfy a look at what the system tells of them. */
function processesThat(satisfy: (proc: string) => boolean): string[] {
  return readdirSync("/proc").filter((name) => {
    try {
      return /^\d+$/.test(name) && satisfy(`/proc/${name}`);
    } catch {
      return false;
    }
  });
}

/** Processes that work in a folder, such as servers. */
const workingIn = (dir: string): string[] => processesThat((proc) => readlinkSync(`${proc}/cwd`).startsWith(dir));

/** Those too, whose temporary folders are in it: a script of ours, and all that it started. */
function startedIn(dir: string): string[] {
  const heirs = processesThat((proc) => readFileSync(`${proc}/environ`, "utf8").includes(`TMPDIR=${dir}`));
  return [...new Set([...workingIn(dir), ...heirs])];
}

const isLinux = existsSync("/proc/self/cwd");

test.runIf(isLinux).each([
  ["SIGINT", 130],
  ["SIGTERM", 143],
] as const)("a soak that is ended by %s", async (signal, code) => {
  // Faults are rare: where a worker takes long to start, its only one must live until a tool was executed.
  const soak = start("scripts/soak.ts", "--minutes", "5", "--workers", "1", "--every", "60000", "--seed", "71");
  // At work: a tool of a run was executed.
  const isAtWork = (name: string): boolean => existsSync(join(soak.dir, name, "executions.jsonl"));
  await vi.waitFor(() => expect(readdirSync(soak.dir).some(isAtWork)).toBe(true), patience);
  expect(workingIn(soak.dir)).not.toEqual([]);
  soak.child.kill(signal);
  expect(await soak.exit).toBe(code);
  expect(soak.said()).toMatch(/^soak: stopped before its end, seed 71$/m);
  expect(soak.said()).not.toMatch(/stuck|lost|effect/);
  expect(workingIn(soak.dir)).toEqual([]);
  expect(readdirSync(soak.dir)).toEqual([]);
});

test.runIf(isLinux)("a run of the chaos tests that is ended by SIGINT", async () => {
  const chaos = start("scripts/chaos.ts", "--only", "q13", "--seed", "72");
  await vi.waitFor(() => expect(workingIn(chaos.dir)).not.toEqual([]), patience);
  chaos.child.kill("SIGINT");
  expect(await chaos.exit).toBe(130);
  expect(chaos.said()).toBe("chaos: stopped before its end, seed 72\n");
  expect(workingIn(chaos.dir)).toEqual([]);
  expect(readdirSync(chaos.dir)).toEqual([]);
});

// The number of processes is that of the program, its servers, their watchdogs and its workers.
test.runIf(isLinux).each([
  ["scripts/run-examples.ts", 4, "SIGINT", 130],
  ["scripts/verify.ts examples", 7, "SIGTERM", 143],
  ["bench/run.ts", 6, "SIGTERM", 143],
  ["bench/scale.ts", 6, "SIGTERM", 143],
  ["bench/watchers.ts", 5, "SIGINT", 130],
  ["bench/listing.ts", 3, "SIGTERM", 143],
] as const)("%s, once %i processes are there, ended by %s", async (file, processes, signal, code) => {
  const script = start(...file.split(" "));
  await vi.waitFor(() => expect(startedIn(script.dir).length).toBeGreaterThanOrEqual(processes), patience);
  script.child.kill(signal);
  expect(await script.exit).toBe(code);
  expect(script.said()).toMatch(/stopped before (its|their) end\n$/);
  expect(readdirSync(script.dir)).toEqual([]);
  // Who was killed is gone a moment later.
  await vi.waitFor(() => expect(startedIn(script.dir)).toEqual([]), patience);
});

test.each([
  [["scripts/soak.ts", "--minutes", "ten"], /--minutes must be a number/],
  [["scripts/chaos.ts", "--seeds", "0"], /--seeds must be a number of at least 1/],
  [["scripts/chaos.ts", "--only", "no-such-case"], /no file of test\/chaos has "no-such-case"/],
  [["scripts/kill-to-resume.ts", "--kills", "0"], /--kills must be a number of at least 1/],
])("%j, which would do nothing and find nothing wrong, is refused", async (args, message) => {
  const { exit, said } = start(...args);
  expect(await exit).toBe(1);
  expect(said()).toMatch(message);
});
