import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { collectAgents } from "../../src/cli/load-agents.ts";
import * as exported from "./fixtures/agents.ts";
import { fixture, runDrover } from "./run-drover.ts";

test("agents are found in exports, arrays and records, each once", () => {
  const names = (module: Record<string, unknown>): string[] => collectAgents(module).map((agent) => agent.name);
  expect(names({ ...exported, default: exported.adder })).toEqual(["adder", "payer", "keyless", "sleeper"]);
  expect(names({ default: { adder: exported.adder } })).toEqual(["adder"]);
  expect(names({ a: null, b: 1, c: [undefined, "x"], d: { name: "adder" }, e: () => {} })).toEqual([]);
});

test("a good file has no findings and exit code 0", async () => {
  const { code, stdout } = await runDrover(["check", fixture("agents.ts")]);
  expect(stdout).toMatch(/^adder {2}scripted {2}add \(read\)$/m);
  expect(stdout).toMatch(/^payer {2}scripted {2}pay \(irreversible\)$/m);
  expect(stdout).toMatch(/no findings\n$/);
  expect(code).toBe(0);
});

test("what models will get wrong is told, with exit code 1", async () => {
  const { code, stdout } = await runDrover(["check", fixture("poor-tool.ts")]);
  expect(stdout).toContain("poor: it has no instructions");
  expect(stdout).toContain('tool search: parameter "q" has no description');
  expect(stdout).toContain("tool search: its description has no example");
  expect(stdout).toMatch(/3 findings\n$/);
  expect(code).toBe(1);
});

test("--json says the same to programs", async () => {
  const { code, stdout } = await runDrover(["check", fixture("poor-tool.ts"), "--json"]);
  const report = JSON.parse(stdout) as { ok: boolean; agents: unknown[]; findings: unknown[] };
  expect(report).toMatchObject({ ok: false, agents: [{ name: "poor", model: "scripted", tools: ["search"] }] });
  expect(report.findings).toContainEqual({
    agent: "poor",
    tool: "search",
    problem: expect.stringContaining('"q"') as string,
  });
  expect(code).toBe(1);
});

test.each([
  ["no-agents.ts", /no-agents\.ts exports no agents\. Export at least one/],
  ["duplicate-tool.ts", /duplicate-tool\.ts cannot be loaded\. Agent "twice".*two tools are named "calculator"/],
  ["missing.ts", /There is no file .*missing\.ts/],
])("%s is a clear error of check and worker", async (name, message) => {
  for (const command of ["check", "worker"]) {
    const { code, stdout, stderr } = await runDrover([command, fixture(name)], { env: { REDIS_URL: "redis://x" } });
    expect(stderr).toMatch(message);
    expect(stderr.trim().split("\n")).toHaveLength(1);
    expect(stdout).toBe("");
    expect(code).toBe(1);
  }
});

test("a file that does not parse, or throws, is named with the reason", async () => {
  const dir = mkdtempSync(join(tmpdir(), "drover-check-"));
  writeFileSync(join(dir, "bad.mjs"), "export const = 1;");
  writeFileSync(join(dir, "throws.mjs"), "throw new Error('no database');");
  const parse = await runDrover(["check", "bad.mjs"], { cwd: dir });
  expect(parse.stderr).toMatch(/^drover: bad\.mjs cannot be loaded\. SyntaxError: /);
  const thrown = await runDrover(["check", "throws.mjs"], { cwd: dir });
  expect(thrown.stderr).toBe("drover: throws.mjs cannot be loaded. Error: no database\n");
  expect([parse.code, thrown.code]).toEqual([1, 1]);
  rmSync(dir, { recursive: true });
});
