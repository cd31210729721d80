// The gate: every stage in order, each one's output only when it failed, and at the end the counts of tests passed and
// failed, alone on a line. Names given on the command line run only those stages. Stopped by Ctrl-C or SIGTERM it ends the
// stage with all that it started, and leaves no folder.
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { z } from "zod";
import { endWithUs, isStopping, openScratch } from "./scratch/scratch.ts";

type Stage = { name: string; script: string /** A Vitest stage that reports its counts as JSON. */; counts?: true };

const stages: Stage[] = [
  { name: "format", script: "format:check" },
  { name: "lint", script: "lint" },
  { name: "types", script: "types" },
  { name: "dead code", script: "dead-code" },
  { name: "unit, contract, architecture", script: "coverage", counts: true },
  { name: "end to end", script: "test:e2e", counts: true },
  { name: "chaos", script: "test:chaos", counts: true },
  { name: "examples", script: "examples", counts: true },
  { name: "readme", script: "readme:check" },
  { name: "docs", script: "docs:check" },
  { name: "build", script: "build" },
  { name: "package", script: "package-check" },
];

const reports = "node_modules/.cache/verify";
const reportSchema = z.object({ numPassedTests: z.int(), numFailedTests: z.int() });
type Counts = { passed: number; failed: number };

type Finished = { code: number; output: string };

function run(args: string[]): Promise<Finished> {
  const env = { ...process.env, NO_COLOR: "1" };
  const child = spawn("npm", ["run", "--silent", ...args], { env, stdio: ["ignore", "pipe", "pipe"], detached: true });
  endWithUs(child);
  const chunks: string[] = [];
  child.stdout.setEncoding("utf8").on("data", (text: string) => chunks.push(text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => chunks.push(text));
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      // This program ends too, and no other stage begins.
      if (!isStopping()) resolve({ code: code ?? 1, output: chunks.join("") });
    });
  });
}

function readCounts(file: string): Counts {
  try {
    const report = reportSchema.parse(JSON.parse(readFileSync(file, "utf8")));
    return { passed: report.numPassedTests, failed: report.numFailedTests };
  } catch {
    return { passed: 0, failed: 0 }; // it ended before it could report; the stage itself counts as failed below
  }
}

async function runStage({ name, script, counts }: Stage): Promise<Counts> {
  const file = `${reports}/${script.replaceAll(":", "-")}.json`;
  rmSync(file, { force: true });
  const startedAt = Date.now();
  process.stdout.write(`${name.padEnd(30)}`);
  const extra = ["--", "--reporter=default", "--reporter=json", `--outputFile.json=${file}`];
  const { code, output } = await run(counts ? [script, ...extra] : [script]);
  const result = counts ? readCounts(file) : { passed: 0, failed: 0 };
  if (code !== 0 && result.failed === 0) result.failed = 1;
  const tests = counts ? `${result.passed} passed, ${result.failed} failed` : "";
  const seconds = ((Date.now() - startedAt) / 1000).toFixed(1);
  console.log(`${code === 0 ? "ok    " : "FAILED"} ${seconds.padStart(6)} s  ${tests}`);
  if (code !== 0) console.log(`\n--- ${name}: npm run ${script}\n${output}\n---\n`);
  return result;
}

openScratch("drover-v-", "verify: stopped before its end");
mkdirSync(reports, { recursive: true });
const only = process.argv.slice(2);
const total: Counts = { passed: 0, failed: 0 };
for (const stage of stages) {
  if (only.length > 0 && !only.includes(stage.name) && !only.includes(stage.script)) continue;
  const { passed, failed } = await runStage(stage);
  total.passed += passed;
  total.failed += failed;
}
console.log(`\n${total.passed} passed, ${total.failed} failed`);
if (total.failed > 0 || total.passed === 0) process.exitCode = 1;
