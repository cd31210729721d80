// Catches: a command that says all was right when it was not, or the other way round; a failure that its own words do not
// play again; code of tools that write executed without being asked for. Real worker processes over a real Redis.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { type CliResult, runDrover } from "../cli/run-drover.ts";
import { seeded } from "./support/seed.ts";

// Longer than other tests of commands: dozens of processes are started and killed.
vi.setConfig({ testTimeout: 300_000 });

const sources = resolve("src");

/** A folder with a file of agents. */
function makeFolder(tools: string, others: string = ""): string {
  const dir = mkdtempSync(join(tmpdir(), "drover-command-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const text = `
    import { appendFileSync } from "node:fs";
    import { z } from ${JSON.stringify(import.meta.resolve("zod"))};
    import { defineAgent } from ${JSON.stringify(join(sources, "define-agent.ts"))};
    import { openai } from ${JSON.stringify(join(sources, "openai/openai.ts"))};
    import { recordEffect } from ${JSON.stringify(join(sources, "testing/index.ts"))};
    import { defineTool } from ${JSON.stringify(join(sources, "tools/define-tool.ts"))};
    import { agentTool } from ${JSON.stringify(join(sources, "tools/agent-tool.ts"))};
    const note = (name) => appendFileSync(${JSON.stringify(join(dir, "executed.txt"))}, name + "\\n");
    const tool = (name, more, act = () => "done") => defineTool({
      name, description: "It acts.", parameters: z.object({ text: z.string() }), ...more,
      execute: (args, context) => { note(name); return act(context); },
    });
    ${others}
    export const clerk = defineAgent({ name: "clerk", instructions: "Act.", model: openai("any"), tools: [${tools}] });
  `;
  writeFileSync(join(dir, "agents.ts"), text);
  return dir;
}

const executed = (dir: string): string[] => [
  ...new Set(readFileSync(join(dir, "executed.txt"), "utf8").trim().split("\n")),
];
const chaos = (dir: string, ...args: string[]): Promise<CliResult> =>
  runDrover(["chaos", "agents.ts", ...args], { cwd: dir });

const sound = `tool("look", { effect: "read" }), tool("post", {}), tool("pay", { effect: "irreversible" })`;

test("[D18] a sound agent: both parts are played, only code that reads is executed, and all was right", async () => {
  const { seed } = seeded();
  const dir = makeFolder(sound);
  const { code, stdout, stderr } = await chaos(dir, "--seed", String(seed), "--runs", "12", "--workers", "2");
  expect(stderr).toBe("");
  expect(stdout).toContain("Your code is executed, hundreds of times, for: look (read).");
  expect(stdout).toMatch(/A stub, which does nothing, stands in for: post \(write\), pay \(irreversible\)/);
  expect(stdout).toMatch(/^lost \(must be 0\) +0 +0 +0$/m);
  expect(stdout).toMatch(/^processes killed +\d+ +[1-9]\d* +\d+$/m);
  expect(stdout).toContain(`All was right, seed ${seed % 2 ** 32}`);
  expect(executed(dir)).toEqual(["look"]);
  expect(code).toBe(0);
});

test("[D18] an agent that hands work to another of its file, and to one that is elsewhere: each is played, and said so", async () => {
  const { seed } = seeded();
  const dir = makeFolder(
    `tool("look", { effect: "read" }), agentTool({ agent: "helper" }), agentTool({ agent: "far" })`,
    `export const helper = defineAgent({
      name: "helper", instructions: "Help.", model: openai("any"), tools: [tool("aid", { effect: "irreversible" })],
    });`,
  );
  const args = ["--seed", String(seed), "--runs", "8", "--workers", "2", "--agent", "clerk"];
  const { code, stdout, stderr } = await chaos(dir, ...args);
  expect(stderr).toBe("");
  expect(stdout).toContain("Played as runs of their own where others hand work to them: helper.");
  expect(stdout).toContain("A stub stands in for agents that this file does not export: far.");
  expect(stdout).toContain("stands in for: aid (irreversible). Execute it too: --real-tools.");
  expect(stdout).toMatch(/^runs handed on to other agents +[1-9]\d* +[1-9]\d* +\d+$/m);
  expect(code).toBe(0);
});

test("[D18] a tool that breaks its promise: found, shrunk to one fault, and played again by the command it prints", async () => {
  const dir = makeFolder(
    `tool("put", { idempotent: true }, (context) => { recordEffect(context.idempotencyKey, "charge"); return "ok"; })`,
  );
  const found = await chaos(dir, "--seed", "4", "--only", "points", "--real-tools");
  expect(found.stderr).toMatch(/WARNING: --real-tools/);
  expect(found.stdout).toMatch(/Wrong: chaos-clerk-1: the effect "charge" under the key \S+ took place more than once/);
  expect(found.stdout).toMatch(/It takes 1 fault: \[\{"call":\d+,"fault":"\w+"\}\]/);
  expect(found.stdout).toMatch(/^ {2}at \w+\.\w+, call \d+ of the run: the process (dies|is frozen) /m);
  expect(found.code).toBe(1);
  const again = /--schedule (\S+) --real-tools/.exec(found.stdout)?.[1] ?? "";
  const replayed = await chaos(dir, "--schedule", again, "--real-tools", "--json");
  expect(JSON.parse(replayed.stdout)).toMatchObject({ ok: false, seed: 4, failure: { schedule: { layer: "points" } } });
  expect(replayed.code).toBe(1);
});

test("[D18] a tool that answers otherwise when it is repeated: told as a hint, and all was right", async () => {
  const dir = makeFolder(`tool("put", { idempotent: true }, () => (globalThis.flip = !globalThis.flip) ? "a" : "b")`);
  const { code, stdout } = await chaos(dir, "--seed", "4", "--only", "points", "--real-tools");
  expect(stdout).toMatch(/^Worth a look: put is idempotent and returned different results .* recordEffect/m);
  expect(stdout).toContain("All was right, seed 4");
  expect(code).toBe(0);
});

test("[D18] runs that end in processes in another way than undisturbed: found, also when a schedule is played again", async () => {
  const dir = makeFolder(
    "",
    `export const grower = defineAgent({
      name: "grower", instructions: "Grow.", model: openai("any"), limits: { maxBytes: 20_000 },
      tools: [tool("grow", { effect: "read" }, () => process.env.DROVER_CHAOS_WORKER ? "x ".repeat(20_000) : "short")],
    });`,
  );
  const schedule = { layer: "processes", agents: ["grower"], runs: 2, workers: 1, seed: 4, faults: [] };
  writeFileSync(join(dir, "schedule.json"), JSON.stringify(schedule));
  const { code, stdout } = await chaos(dir, "--schedule", "schedule.json");
  expect(stdout).toMatch(/Wrong: chaos-\d: it is failed \(byte_budget: .*; undisturbed it is completed \(answered\)/);
  expect(code).toBe(1);
});

test.each([
  [["--agent", "nobody"], /There is no agent "nobody" in this file. It has: clerk/],
  [["--real-tools", "--stub-tools"], /exclude each other/],
  [["--schedule", "none.json"], /The schedule none.json cannot be read/],
  [["--script", "none.json"], /The script none.json cannot be read/],
  [["--only", "all"], /Expected one of points, processes/],
])("%j is refused before anything is played", async (args, message) => {
  const { code, stderr } = await chaos(makeFolder(sound), ...args);
  expect(stderr).toMatch(message);
  expect(code).toBe(1);
});
