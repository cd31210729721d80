// `npm run demo`, as somebody who cloned the repository types it.
import { spawn } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { isAlive } from "../../src/embedded/probe.ts";
import { startDrover } from "../cli/run-drover.ts";
import { type FakeReply, startFakeOpenai, turnOf } from "../support/fake-openai.ts";

let dir: string;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "drover-demo-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const pidsIn = (text: string): number[] => [...text.matchAll(/\(process (\d+)\)/g)].map((match) => Number(match[1]));

async function untilAllGone(pids: number[]): Promise<void> {
  expect(pids).toHaveLength(2);
  await expect.poll(() => pids.some(isAlive), { timeout: 10_000 }).toBe(false);
}

test("a worker is killed in the middle of a step, another finishes the run, every effect is there once", async () => {
  const startedAt = performance.now();
  const { code, stdout, stderr } = await startDrover(["demo"], { cwd: dir }).ended;
  expect(stderr).toBe("");
  expect(code).toBe(0);
  const lines = stdout.split("\n");
  expect(lines[0]).toMatch(/^Model: a scripted model .*OPENAI_API_KEY.*OPENAI_BASE_URL/);
  const [a, b] = pidsIn(stdout);
  const victim = Number(/kill -9 (\d+): worker [AB] is dead in the middle of that step/.exec(stdout)?.[1]);
  expect([a, b]).toContain(victim);
  const afterKill = stdout.slice(stdout.indexOf("kill -9"), stdout.indexOf("Transcript"));
  expect(afterKill).not.toContain(`(${victim})`);
  expect(afterKill).toContain("holds the same step");
  const resumed = Number(/went on after ([\d.]+) s/.exec(stdout)?.[1]);
  expect(resumed).toBeLessThan(5);
  expect(stdout).toContain("Effects: 5 (calculator 4, write_file 1), each exactly once; tools were begun 6 times.");
  expect(stdout).toContain("The trip costs 1076.7032 in all");
  const file = /^File: (.*)$/m.exec(stdout)?.[1] ?? "";
  expect(file.startsWith(join(dir, ".drover", "demo"))).toBe(true);
  expect(readFileSync(file, "utf8")).toBe("1076.7032\n");
  expect(stdout).toContain("\nNext:\n");
  await untilAllGone(pidsIn(stdout));
  expect(existsSync(join(dir, ".drover/redis.sock"))).toBe(false);
  expect(performance.now() - startedAt).toBeLessThan(20_000);
});

test.each([
  ["SIGINT", 130],
  ["SIGKILL", null],
] as const)("%s ends the demo, its workers and its Redis", async (signal, exitCode) => {
  const demo = startDrover(["demo"], { cwd: dir });
  await demo.untilOutput(/kill -9/);
  demo.child.kill(signal);
  expect((await demo.ended).code).toBe(exitCode);
  await untilAllGone(pidsIn(demo.stdout()));
  await expect.poll(() => existsSync(join(dir, ".drover/redis.sock")), { timeout: 10_000 }).toBe(false);
});

test("with OPENAI_BASE_URL it works with that model and says so first", async () => {
  const calculator = (expression: string) => ({ name: "calculator", arguments: { expression } });
  const answers: FakeReply[] = [
    { toolCalls: [calculator("3*412*8.5/100"), calculator("7*2*64")] },
    { toolCalls: [calculator("105.06*1.72 + 896")] },
    { toolCalls: [{ name: "write_file", arguments: { path: "trip.txt", content: "1076.70" } }] },
    { text: "It costs 1076.70." },
  ];
  const server = await startFakeOpenai({ respond: ({ body }) => answers[turnOf(body) - 1] ?? { text: "What?" } });
  const env = { OPENAI_BASE_URL: server.url, DROVER_MODEL: "local-model" };
  const { code, stdout } = await startDrover(["demo"], { cwd: dir, env }).ended;
  expect(stdout).toMatch(/^Model: local-model at 127\.0\.0\.1:\d+\.\n/);
  expect(stdout).toContain("Effects: 4 (calculator 3, write_file 1), each exactly once");
  expect(server.requests.every(({ body }) => body.model === "local-model")).toBe(true);
  expect(code).toBe(0);
  await server.stop();
});

test("a model that fails the run fails the demo, with the reason", async () => {
  const server = await startFakeOpenai({ respond: () => ({ status: 401, body: { error: { message: "no" } } }) });
  const env = { OPENAI_BASE_URL: server.url, OPENAI_API_KEY: "sk-wrong" };
  const { code, stdout } = await startDrover(["demo"], { cwd: dir, env }).ended;
  expect(stdout).toMatch(/^Wrong: the run is failed: .*refused the API key \(401\)/m);
  expect(stdout).not.toContain("All was right");
  expect(code).toBe(1);
  await server.stop();
});

test("npm run demo prints nothing before the demo's first line when the packages are there", async () => {
  // The parts of a clone that it needs, with this checkout's packages.
  for (const part of ["package.json", "package-lock.json", "src", "scripts"])
    cpSync(part, join(dir, part), { recursive: true });
  symlinkSync(join(process.cwd(), "node_modules"), join(dir, "node_modules"));
  const child = spawn("npm", ["run", "--silent", "demo"], { cwd: dir, stdio: ["ignore", "pipe", "pipe"] });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  const code = await new Promise((resolve) => child.once("close", resolve));
  expect(stderr).toBe("");
  expect(stdout).toMatch(/^Model: /);
  expect(stdout).toMatch(/All was right/);
  expect(code).toBe(0);
});
