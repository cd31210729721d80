// Catches: a soak or a run of the chaos tests that is stopped in the middle and leaves processes or a folder, or does not
// say with which seed it was.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";

vi.setConfig({ testTimeout: 120_000 });

const patience = { timeout: 60_000, interval: 50 };

/** A script of ours whose temporary folders are all in one of the test's. */
function start(...args: string[]): { child: ChildProcess; dir: string; exit: Promise<number | null>; said(): string } {
  const dir = mkdtempSync(join(tmpdir(), "drover-s-"));
  const child = spawn(process.execPath, args, {
    env: { ...process.env, TMPDIR: dir },
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

/** Processes that work in a folder, such as servers. */
function workingIn(dir: string): string[] {
  return readdirSync("/proc").filter((name) => {
    try {
      return /^\d+$/.test(name) && readlinkSync(`/proc/${name}/cwd`).startsWith(dir);
    } catch {
      return false;
    }
  });
}

const isLinux = existsSync("/proc/self/cwd");

test.runIf(isLinux).each([
  ["SIGINT", 130],
  ["SIGTERM", 143],
] as const)("a soak that is ended by %s", async (signal, code) => {
  const soak = start("scripts/soak.ts", "--minutes", "5", "--workers", "1", "--seed", "71");
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
