// Runs every numbered example by itself, offline, in an empty folder. An example asserts its own result and ends with
// exit code 0.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const timeoutMs = 60_000;
// No endpoint, key or Redis of the surroundings may leak in: an example brings all it needs.
const kept = ["PATH", "HOME", "TMPDIR", "LANG"];
const env = Object.fromEntries(kept.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])));

function runExample(file: string): boolean {
  const cwd = mkdtempSync(join(tmpdir(), "drover-example-"));
  const startedAt = Date.now();
  const options = { cwd, env, encoding: "utf8", timeout: timeoutMs } as const;
  const { status, stdout, stderr } = spawnSync(process.execPath, [resolve("examples", file)], options);
  rmSync(cwd, { recursive: true, force: true });
  console.log(`${status === 0 ? "ok    " : "FAILED"} ${file} (${Date.now() - startedAt} ms)`);
  if (status !== 0) console.log(stdout, stderr, status === null ? `stopped after ${timeoutMs} ms` : "");
  return status === 0;
}

const files = readdirSync("examples")
  .filter((name) => /^\d\d-.*\.ts$/.test(name))
  .sort();
const passed = files.filter(runExample).length;
const failed = files.length - passed;

const report = process.argv.find((part) => part.startsWith("--outputFile.json="))?.split("=")[1];
if (report) writeFileSync(report, JSON.stringify({ numPassedTests: passed, numFailedTests: failed }));
console.log(`${passed} passed, ${failed} failed`);
if (failed > 0 || files.length === 0) process.exitCode = 1;
