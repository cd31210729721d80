// Runs every example of examples/ by itself, offline. An example asserts its own result and ends with exit code 0.
import { spawnSync } from "node:child_process";
import { readdirSync, writeFileSync } from "node:fs";

const timeoutMs = 60_000;
// No endpoint, key or Redis of the surroundings may leak in: an example brings all it needs.
const kept = ["PATH", "HOME", "TMPDIR", "LANG"];
const env = Object.fromEntries(kept.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])));

const files = readdirSync("examples")
  .filter((name) => /^\d\d-.*\.ts$/.test(name))
  .sort();
let failed = 0;
for (const file of files) {
  const startedAt = Date.now();
  const { status, stdout, stderr } = spawnSync(process.execPath, [`examples/${file}`], {
    env,
    encoding: "utf8",
    timeout: timeoutMs,
  });
  console.log(`${status === 0 ? "ok    " : "FAILED"} ${file} (${Date.now() - startedAt} ms)`);
  if (status === 0) continue;
  failed += 1;
  console.log(stdout, stderr, status === null ? `stopped after ${timeoutMs} ms` : "");
}

const report = process.argv.find((part) => part.startsWith("--outputFile.json="))?.split("=")[1];
const counts = { numPassedTests: files.length - failed, numFailedTests: failed };
if (report) writeFileSync(report, JSON.stringify(counts));
console.log(`${counts.numPassedTests} passed, ${failed} failed`);
if (failed > 0 || files.length === 0) process.exitCode = 1;
