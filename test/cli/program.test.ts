// The program around the commands: how it is called, how it fails, what it prints where.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { testPrefix } from "../support/redis.ts";
import { freePort } from "../support/redis-server.ts";
import { fixture, mainFile, runDrover } from "./run-drover.ts";

let dir: string;
const env = { REDIS_URL: inject("redisUrl"), DROVER_PREFIX: testPrefix() };

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "drover-cli-"));
});
afterAll(() => rmSync(dir, { recursive: true }));

const commands =
  "demo dev worker serve start watch show replay list send approve deny answer cancel pause resume retry delete keys doctor check chaos completion".split(
    " ",
  );

test("help names every command and no hidden one", async () => {
  const { code, stdout } = await runDrover(["--help"]);
  expect(code).toBe(0);
  for (const command of commands) expect(stdout).toMatch(new RegExp(`^  ${command}\\b`, "m"));
  expect(stdout).not.toMatch(/demo-worker|chaos-worker/);
});

test.each(commands)("%s has help of its own", async (command) => {
  const { code, stdout } = await runDrover([command, "--help"]);
  expect(code).toBe(0);
  expect(stdout).toContain(`Usage: drover ${command}`);
});

test("the version is the package's", async () => {
  expect((await runDrover(["--version"])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
});

test.each([
  [["strat"], /unknown command 'strat'[^]*Did you mean start/],
  [["show"], /missing required argument 'id'/],
  [["list", "--limit", "many"], /'--limit <n>' argument 'many' is invalid. Expected a whole number from 1 to 1000/],
  [["list", "--status", "lost"], /Expected one of queued, running/],
  [["start", "a", "b", "--metadata", "novalue"], /Expected key=value/],
  [["list", "--colour"], /unknown option '--colour'/],
])("%j is refused with exit code 1", async (args, message) => {
  const { code, stdout, stderr } = await runDrover(args, { env });
  expect(stderr).toMatch(message);
  expect(stdout).toBe("");
  expect(code).toBe(1);
});

test("a command line that cannot be used says where to look, once, and is JSON for programs", async () => {
  const told = await runDrover(["show"], { env });
  expect(told.stderr).toBe("drover: missing required argument 'id' (drover show --help tells more)\n");
  expect((await runDrover(["strat"], { env })).stderr).not.toContain("--help");
  const { stderr, code } = await runDrover(["list", "--limit", "many", "--json"], { env });
  expect(JSON.parse(stderr)).toEqual({
    error: { code: "invalid", message: expect.stringContaining("Expected a whole number") as string },
  });
  expect(code).toBe(1);
});

test("a Node that is too old is told so in one sentence", async () => {
  const pretend = 'Object.defineProperty(process,"versions",{value:{...process.versions,node:"20.1.0"}})';
  const { code, stderr } = await runDrover(["list"], { nodeArgs: ["--import", `data:text/javascript,${pretend}`] });
  expect(stderr).toBe("drover needs Node.js 22.22 or newer and this is 20.1.0: install a newer one\n");
  expect(code).toBe(1);
});

describe("errors", () => {
  test("are one sentence on standard error, without a stack", async () => {
    const { code, stdout, stderr } = await runDrover(["show", "nobody"], { env });
    expect(stderr).toMatch(/^drover: No run has the id "nobody".*\n$/);
    expect(stdout).toBe("");
    expect(code).toBe(1);
  });

  test("show their stack with DROVER_LOG_LEVEL=debug", async () => {
    const { stderr } = await runDrover(["show", "nobody"], { env: { ...env, DROVER_LOG_LEVEL: "debug" } });
    expect(stderr).toMatch(/^\s+at .*run-handle|client/m);
  });

  test("are a line of JSON with --json", async () => {
    const { code, stderr } = await runDrover(["show", "nobody", "--json"], { env });
    expect(JSON.parse(stderr)).toEqual({
      error: { code: "not_found", message: expect.stringContaining("nobody") as string },
    });
    expect(code).toBe(1);
  });

  test("Redis that nobody answers for is named, and nothing hangs", async () => {
    const url = `redis://:hunter2@127.0.0.1:${await freePort()}`;
    const { code, stderr } = await runDrover(["list"], { env: { REDIS_URL: url } });
    expect(stderr).toMatch(/^drover: Redis at 127\.0\.0\.1:\d+ cannot be used \(ECONNREFUSED\): .*start Redis.*\n$/);
    expect(stderr).not.toContain("hunter2");
    expect(code).toBe(1);
  });

  test("without any Redis the sentence says how to get one", async () => {
    const { code, stderr } = await runDrover(["list"], { cwd: dir });
    expect(stderr).toMatch(/REDIS_URL is not set.*`drover dev`/);
    expect(code).toBe(1);
  });

  test("all wrong settings are told at once", async () => {
    const { code, stderr } = await runDrover(["list"], { env: { REDIS_URL: "here", DROVER_CONCURRENCY: "x" } });
    expect(stderr).toMatch(/2 settings are wrong/);
    expect(stderr).toMatch(/REDIS_URL[^]*DROVER_CONCURRENCY/);
    expect(code).toBe(1);
  });

  test("an input over the limit is refused with its size and the limit", async () => {
    const options = { env: { ...env, DROVER_PAYLOAD_LIMIT: "2048" }, input: "x".repeat(3000) };
    const { code, stderr } = await runDrover(["start", "adder", "-"], options);
    expect(stderr).toMatch(/its input is 30\d\d bytes, the limit is 2048/);
    expect(code).toBe(1);
  });
});

test("settings come from .env in the current directory", async () => {
  writeFileSync(join(dir, ".env"), `REDIS_URL=${env.REDIS_URL}\nDROVER_PREFIX=${env.DROVER_PREFIX}\n`);
  const { code, stderr } = await runDrover(["list"], { cwd: dir });
  rmSync(join(dir, ".env"));
  expect(stderr).toBe("no runs\n");
  expect(code).toBe(0);
});

test("a reader that goes away ends it quietly", () => {
  const command = `"${process.execPath}" "${mainFile}" --help | head -1; exit \${PIPESTATUS[0]}`;
  expect(execFileSync("bash", ["-c", command], { encoding: "utf8" })).toMatch(/^Usage: drover/);
});

test("colours come only when asked for", async () => {
  const args = ["check", fixture("agents.ts")];
  const plain = await runDrover(args);
  expect(plain.stdout).not.toContain("\u001b[");
  const coloured = await runDrover(args, { env: { FORCE_COLOR: "1" } });
  expect(coloured.stdout).toContain("\u001b[");
  const refused = await runDrover(args, { env: { NO_COLOR: "1" } });
  expect(refused.stdout).not.toContain("\u001b[");
});
