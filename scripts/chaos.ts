// npm run chaos: the long forms of all chaos tests, in one fixed order and each within its time, then the distribution of
// kill to resume. Every line has the seed that plays it again.
//   npm run chaos -- --seed 7       with a given seed
//   npm run chaos -- --seeds 20     what is chosen at random, with 20 seeds; one line each
//   npm run chaos -- --only q05     files whose name has this
// Stopped by Ctrl-C or SIGTERM it ends all that it started, leaves no folder, and says with which seed it was.
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { z } from "zod";
import { endGroup, endWithUs, isStopping, openScratch } from "./scratch/scratch.ts";
import { readNumber } from "./soak/numbers.ts";

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: String(Date.now() % 1_000_000_000) },
    seeds: { type: "string" },
    only: { type: "string", default: "" },
    /** Of one file. */
    minutes: { type: "string", default: "45" },
  },
});
const folder = "test/chaos";
const limitMs = readNumber("minutes", values.minutes, 0.01) * 60_000;
const first = readNumber("seed", values.seed, 0);
const seeds = values.seeds === undefined ? undefined : readNumber("seeds", values.seeds, 1);
const reportSchema = z.object({ numPassedTests: z.int(), numFailedTests: z.int(), numPendingTests: z.int() });
/** All that the tests make is in it: killed with them, they remove nothing themselves. */
const scratch = openScratch("drover-c-", `chaos: stopped before its end, seed ${first}`);

type Outcome = { code: number; output: string; seconds: string };

/** Runs a program to its end, or to the end of its time. */
function run(command: string, args: string[], env: Record<string, string>): Promise<Outcome> {
  const startedAt = performance.now();
  // In a group of its own, which no Ctrl-C reaches.
  const child = spawn(command, args, {
    env: { ...process.env, NO_COLOR: "1", ...env },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  endWithUs(child);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
  }
  const timer = setTimeout(() => {
    output += `\nit took longer than ${values.minutes} min\n`;
    endGroup(child);
  }, limitMs);
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      clearTimeout(timer);
      // This program ends too, and nothing begins in the meantime.
      if (isStopping()) return;
      endGroup(child);
      resolve({ code: code ?? 1, output, seconds: `${((performance.now() - startedAt) / 1000).toFixed(0)} s` });
    });
  });
}

/** What tests tell as their result; see `test/chaos/support/figure.ts`. */
const figure = /^figure (.+)$/;

async function runTests(name: string, files: readonly string[], env: Record<string, string>): Promise<boolean> {
  const report = join(scratch, `${name.replaceAll(/\W+/g, "-")}.json`);
  const reporting = ["--reporter=default", "--reporter=json", `--outputFile.json=${report}`];
  const { code, output, seconds } = await run("vitest", ["run", "--project", "chaos", ...reporting, ...files], env);
  let told = "it did not report";
  try {
    const { numPassedTests, numFailedTests, numPendingTests } = reportSchema.parse(
      JSON.parse(readFileSync(report, "utf8")),
    );
    const skipped = numPendingTests > 0 ? `, ${numPendingTests} skipped` : "";
    told = `${numPassedTests + numFailedTests} tests, ${numPassedTests} passed${skipped}`;
  } catch {
    // It ended before it could; its output tells.
  }
  console.log(`${code === 0 ? "ok    " : "FAILED"} ${name}: seed ${env.DROVER_CHAOS_SEED}, ${told}, ${seconds}`);
  for (const line of output.split("\n")) {
    const told = figure.exec(line)?.[1];
    if (told !== undefined) console.log(`         ${told}`);
  }
  if (code !== 0) console.log(`--- ${name}\n${output.slice(-20_000)}\n---`);
  return code === 0;
}

const files = readdirSync(folder)
  .filter((file) => file.endsWith(".chaos.test.ts") && file.includes(values.only))
  .map((file) => join(folder, file))
  .sort();
if (files.length === 0) throw new Error(`no file of ${folder} has "${values.only}" in its name`);
let ok = true;
if (seeds === undefined) {
  for (const file of files) {
    const name = file.slice(folder.length + 1).replace(".chaos.test.ts", "");
    ok = (await runTests(name, [file], { DROVER_CHAOS: "long", DROVER_CHAOS_SEED: String(first) })) && ok;
  }
  if (values.only === "") {
    const { code, output } = await run(process.execPath, ["scripts/kill-to-resume.ts"], {});
    console.log(`${code === 0 ? "ok    " : "FAILED"} ${output.trim()}`);
    ok &&= code === 0;
  }
} else {
  // What a seed decides: tests that draw from it. The others would do the same each time.
  const seeded = files.filter((file) => /\brandom\b/.test(readFileSync(file, "utf8")));
  let green = 0;
  for (let index = 0; index < seeds; index += 1) {
    const passed = await runTests(`run ${index + 1} of ${seeds}`, seeded, { DROVER_CHAOS_SEED: String(first + index) });
    green += passed ? 1 : 0;
  }
  console.log(
    `chaos: ${green} of ${seeds} seeds green (${first} to ${first + seeds - 1}), ${seeded.length} files each`,
  );
  ok = green === seeds;
}
if (!ok) process.exitCode = 1;
