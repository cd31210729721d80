// Policy, dry run and audit as people meet them on the command line.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { testPrefix } from "../support/redis.ts";
import { type CliProcess, type CliResult, fixture, runDrover, startDrover } from "./run-drover.ts";

const policy = JSON.stringify([
  { tool: "pay", agent: "pay*", approvalExpiresMs: 3_600_000 },
  { tool: "add", effect: "write" },
]);
const env = { REDIS_URL: inject("redisUrl"), DROVER_PREFIX: testPrefix() };
const drover = (...args: string[]): Promise<CliResult> => runDrover(args, { env });

describe("check", () => {
  test("shows how each tool will be treated and by which rule, to people and programs", async () => {
    const args = ["check", fixture("agents.ts")];
    const table = await runDrover(args, { env: { DROVER_POLICY: policy } });
    expect(table.stdout).toMatch(/^AGENT +TOOL +EFFECT +APPROVAL +EXPIRES AFTER +BY$/m);
    expect(table.stdout).toMatch(/^adder +add +write +never +policy rule 2: effect write$/m);
    expect(table.stdout).toMatch(
      /^payer +pay +irreversible +always +3600 s +policy rule 1: approvalExpiresMs 3600000$/m,
    );
    const json = await runDrover([...args, "--json"], { env: { DROVER_POLICY: '[{"tool":"pay","allow":false}]' } });
    expect(JSON.parse(json.stdout)).toMatchObject({
      settings: [
        { agent: "adder", tool: "add", allowed: true, effect: "read", approval: "never", rule: "" },
        { agent: "payer", tool: "pay", allowed: false, rule: "policy rule 1: allow false" },
      ],
    });
    expect([table.code, json.code]).toEqual([0, 0]);
  });

  test("says that a tool keeps its own settings, or may not be used", async () => {
    const { stdout } = await runDrover(["check", fixture("agents.ts")], {
      env: { DROVER_POLICY: '[{"tool":"pay","allow":false}]' },
    });
    expect(stdout).toMatch(/^adder +add +read +never +the tool's own$/m);
    expect(stdout).toMatch(/^payer +pay +not allowed +policy rule 1: allow false$/m);
  });
});

test("a worker refuses to start on a policy that does not fit, naming rule and field", async () => {
  const dir = mkdtempSync(join(tmpdir(), "drover-policy-"));
  const file = join(dir, "policy.json");
  writeFileSync(file, '[{"tool":"pay","approval":"maybe"},{"tool":"x","alow":true}]');
  const { code, stdout, stderr } = await runDrover(["worker", fixture("agents.ts")], {
    env: { ...env, DROVER_POLICY: file, DROVER_CONCURRENCY: "0" },
  });
  rmSync(dir, { recursive: true });
  expect(stderr).toContain(`DROVER_POLICY: ${file}: rule 1, approval: expected "always" or "never"`);
  expect(stderr).toContain(`DROVER_POLICY: ${file}: rule 2: unknown field "alow"`);
  expect(stderr).toContain("DROVER_CONCURRENCY");
  expect(stdout).toBe("");
  expect(code).toBe(1);
});

describe("with a worker", () => {
  let worker: CliProcess;
  beforeAll(async () => {
    worker = startDrover(["worker", fixture("agents.ts")], { env: { ...env, DROVER_POLICY: policy } });
    await worker.untilOutput(/ready .*policy of 2 rules/);
  });
  afterAll(async () => {
    worker.child.kill("SIGTERM");
    await worker.ended;
  });

  test("a dry run ends with a table of what it would have done, and show has it too", async () => {
    const { code, stdout } = await drover("start", "payer", "x", "--id", "dry-1", "--dry-run", "--watch");
    const table =
      /dry run: not executed, only described\nCALL +TOOL +ARGUMENTS +WOULD HAVE\ncall-1-1 +pay +\{"euros":5\} +Dry run: pay was not executed/;
    expect(stdout).toMatch(/queued, as a dry run/);
    expect(stdout).toMatch(/pay call-1-1 not executed, only described/);
    expect(stdout).toMatch(table);
    expect(code).toBe(0);
    const shown = await drover("show", "dry-1");
    expect(shown.stdout).toMatch(/^dry run +what reads is executed/m);
    expect(shown.stdout).toMatch(table);
    expect(JSON.parse((await drover("show", "dry-1", "--json")).stdout)).toMatchObject({ dryRun: true });
  });

  test("a dry run that asked for reads alone says so; a real run says nothing of it", async () => {
    const dry = await drover("start", "keyless", "x", "--dry-run", "--watch");
    expect(dry.stdout).toMatch(/dry run: nothing but reads was asked for\n$/);
    const real = await drover("start", "keyless", "x", "--watch");
    expect(real.stdout).not.toMatch(/dry run/);
  });

  test("an approval is bound to what was shown, and the audit tells who did what", async () => {
    const watching = startDrover(["start", "payer", "x", "--id", "audit-1", "--watch"], { env });
    const [, command = ""] = await watching.untilOutput(/main\.ts (approve audit-1 call-1-1 --hash [\w-]{22})/);
    const shown = await drover("show", "audit-1");
    expect(shown.stdout).toMatch(/would do: pay with \{"euros":5\}/);
    expect(shown.stdout).toMatch(/effect irreversible, because the tool is irreversible.*, asked \S+Z, expires \S+Z/);
    const wrong = await drover("approve", "audit-1", "call-1-1", "--hash", "other");
    expect(wrong.stderr).toMatch(/was not approved: the decision is about arguments with the hash other/);
    expect(wrong.code).toBe(1);
    const approve = [...command.split(" "), "--by", "ada"];
    expect(await drover(...approve)).toMatchObject({ code: 0, stdout: "audit-1  call-1-1 approved\n" });
    expect((await watching.ended).stdout).toMatch(/completed\n$/);
    expect(await drover(...approve)).toMatchObject({ code: 0 }); // the same once more
    const denied = await drover("deny", "audit-1", "call-1-1", "--by", "bob");
    expect(denied.stderr).toMatch(/was not denied: ada approved it already, at /);
    const { stdout } = await drover("show", "audit-1", "--audit");
    expect(stdout).toMatch(/^AT +BY +ACTION +CALL +TOOL +ARGUMENTS +REASON$/m);
    expect(stdout).toMatch(new RegExp(`^\\S+Z +${userInfo().username} +started`, "m"));
    expect(stdout).toMatch(/^\S+Z +drover +asked +call-1-1 +pay +[\w-]{22} +the tool is irreversible/m);
    expect(stdout).toMatch(/^\S+Z +ada +approved +call-1-1 +pay +[\w-]{22}$/m);
    const json = JSON.parse((await drover("show", "audit-1", "--audit", "--json")).stdout) as { audit: unknown };
    expect(json.audit).toMatchObject([{ action: "started" }, { action: "asked" }, { by: "ada", action: "approved" }]);
  });
});
