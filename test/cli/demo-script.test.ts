// scripts/demo.mjs: when it installs the packages, and that a failure is passed on. npm is a stand-in that writes down
// what it was asked; the demo itself is sent to a Redis that is not there, so that it ends at once.
import { spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";

let dir: string;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "drover-demo-script-"));
  for (const part of ["package.json", "package-lock.json", "src", "scripts"]) {
    cpSync(part, join(dir, part), { recursive: true });
  }
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const modules = resolve("node_modules");

/** A stand-in for npm: links this checkout's packages, or fails. */
function standInNpm(code: number): string {
  const file = join(dir, "npm-stand-in.cjs");
  const link = `fs.rmSync("node_modules", { recursive: true, force: true }); fs.symlinkSync(${JSON.stringify(modules)}, "node_modules");`;
  writeFileSync(
    file,
    `const fs = require("node:fs");
     fs.writeFileSync("asked.txt", process.argv.slice(2).join(" "));
     console.log("added 1 package");
     ${code === 0 ? link : ""}
     process.exit(${code});`,
  );
  return file;
}

type Result = { code: number | null; stdout: string; stderr: string };

function runScript(npm: string): Promise<Result> {
  const child = spawn(process.execPath, [join(dir, "scripts/demo.mjs")], {
    env: {
      ...process.env,
      npm_execpath: npm,
      REDIS_URL: "redis://127.0.0.1:1",
      OPENAI_API_KEY: "",
      OPENAI_BASE_URL: "",
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const result: Result = { code: null, stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    result.stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    result.stderr += text;
  });
  return new Promise((done) => child.once("close", (code) => done({ ...result, code })));
}

const asked = (): string | undefined =>
  existsSync(join(dir, "asked.txt")) ? readFileSync(join(dir, "asked.txt"), "utf8") : undefined;

test("without packages it says so, runs npm ci, and goes on to the demo", async () => {
  const { code, stdout, stderr } = await runScript(standInNpm(0));
  expect(asked()).toMatch(/^ci /);
  expect(stderr).toMatch(/^The packages are not installed yet: running "npm ci"[^]*added 1 package[^]*Installed in /);
  expect(stdout).toMatch(/^Model: a scripted model/);
  expect(stderr).toMatch(/drover: Redis at 127\.0\.0\.1:1 cannot be used \(ECONNREFUSED\)/);
  expect(code).toBe(1);
});

test("packages older than the lock file are installed again", async () => {
  mkdirSync(join(dir, "node_modules"));
  const lock = JSON.parse(readFileSync(join(modules, ".package-lock.json"), "utf8")) as {
    packages: Record<string, { version: string }>;
  };
  lock.packages["node_modules/zod"] = { version: "0.0.1" };
  writeFileSync(join(dir, "node_modules/.package-lock.json"), JSON.stringify(lock));
  const { stderr } = await runScript(standInNpm(0));
  expect(stderr).toMatch(/^The installed packages are not those of the lock file/);
  expect(asked()).toMatch(/^ci /);
});

test("packages as the lock file wants them are left alone", async () => {
  symlinkSync(modules, join(dir, "node_modules"));
  const { stdout, stderr } = await runScript(standInNpm(0));
  expect(asked()).toBeUndefined();
  expect(stdout).toMatch(/^Model: /);
  expect(stderr).toMatch(/^drover: Redis/);
});

test("an npm ci that fails ends it with the same code", async () => {
  const { code, stdout, stderr } = await runScript(standInNpm(7));
  expect(stderr).toContain('"npm ci" ended with code 7');
  expect(stdout).toBe("");
  expect(code).toBe(7);
});
