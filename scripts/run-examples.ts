// Runs every numbered example by itself, offline, in an empty folder. An example asserts its own result and ends with
// exit code 0. Stopped by Ctrl-C or SIGTERM this ends the example and leaves no folder.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { endGroup, endWithUs, isStopping, openScratch } from "./scratch/scratch.ts";

const timeoutMs = 60_000;
const scratch = openScratch("drover-x-", "examples: stopped before their end");
// No endpoint, key or Redis of the surroundings may leak in: an example brings all it needs.
const kept = ["PATH", "HOME", "TMPDIR", "LANG"];
const env = Object.fromEntries(kept.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])));

async function runExample(file: string): Promise<boolean> {
  const cwd = mkdtempSync(join(scratch, "example-"));
  const startedAt = Date.now();
  // In a group of its own, to be ended with all that it started.
  const child = endWithUs(spawn(process.execPath, [resolve("examples", file)], { cwd, env, detached: true }));
  child.stdin.end();
  const timer = setTimeout(() => endGroup(child), timeoutMs);
  const [[code], ...output] = await Promise.all([once(child, "exit"), text(child.stdout), text(child.stderr)]);
  clearTimeout(timer);
  if (isStopping()) await new Promise(() => {}); // This program ends too, and no other example begins.
  console.log(`${code === 0 ? "ok    " : "FAILED"} ${file} (${Date.now() - startedAt} ms)`);
  if (code !== 0) console.log(...output, code === null ? `stopped after ${timeoutMs} ms` : "");
  return code === 0;
}

const files = readdirSync("examples")
  .filter((name) => /^\d\d-.*\.ts$/.test(name))
  .sort();
let passed = 0;
for (const file of files) {
  if (await runExample(file)) passed += 1;
}
const failed = files.length - passed;

const report = process.argv.find((part) => part.startsWith("--outputFile.json="))?.split("=")[1];
if (report) writeFileSync(report, JSON.stringify({ numPassedTests: passed, numFailedTests: failed }));
console.log(`${passed} passed, ${failed} failed`);
if (failed > 0 || files.length === 0) process.exitCode = 1;
