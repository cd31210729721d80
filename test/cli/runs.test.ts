// The commands that start runs, show them and decide about them, against a worker process.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { makePng } from "../support/png.ts";
import { testPrefix } from "../support/redis.ts";
import { type CliResult, runDrover, startDrover, useWorker } from "./run-drover.ts";

const env = { REDIS_URL: inject("redisUrl"), DROVER_PREFIX: testPrefix() };
const drover = (...args: string[]): Promise<CliResult> => runDrover(args, { env });

type View = {
  runId: string;
  status: string;
  stopReason?: string;
  openCalls: { callId: string; state: string }[];
  transcript: { role: string; content: unknown }[];
};
const show = async (id: string): Promise<View> => JSON.parse((await drover("show", id, "--json")).stdout) as View;

useWorker(env);

/** Starts a run and waits until it does what `pattern` tells, in the words of `watch`. */
async function startUntil(pattern: RegExp, ...args: string[]): Promise<void> {
  const watching = startDrover(["start", ...args, "--watch"], { env });
  await watching.untilOutput(pattern);
  watching.child.kill("SIGINT");
  await watching.ended;
}

describe("start", () => {
  test("--file: images and files go with the input, and are shown as what they are", async () => {
    const dir = mkdtempSync(join(tmpdir(), "drover-files-"));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    const [image, table] = [join(dir, "a.png"), join(dir, "t.csv")];
    writeFileSync(image, makePng(64, 48));
    writeFileSync(table, "a,b\n1,2");
    const files = ["--file", image, "--file", table];
    const watched = await drover("start", "adder", "1+2", "--id", "files-1", ...files, "--watch");
    expect(watched.code).toBe(0);
    const { stdout } = await drover("show", "files-1");
    expect(stdout).toMatch(
      /user\n {2}1\+2\n {2}\[image: image\/png, 64x48, \d+ B\]\n {2}\[file: t.csv, text\/csv, 7 B\]/,
    );
    expect(watched.stdout + stdout).not.toContain("base64");
    writeFileSync(table, Buffer.from([0, 255]));
    const refused = await drover("start", "adder", "1+2", "--file", table);
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toContain('The type of "t.csv" (2 B) cannot be told');
  });

  test("prints the run's id and status and ends; the same again is the same run", async () => {
    const first = await drover("start", "adder", "1+2, 3+4", "--id", "start-1");
    expect(first.stdout).toMatch(/^start-1 {2}\w+\n$/);
    expect(first.code).toBe(0);
    const again = await drover("start", "adder", "1+2, 3+4", "--id", "start-1", "--json");
    expect(JSON.parse(again.stdout)).toMatchObject({ runId: "start-1", agent: "adder" });
  });

  test("the same id with another input is a conflict", async () => {
    await drover("start", "adder", "one", "--id", "start-2");
    const { code, stderr } = await drover("start", "adder", "two", "--id", "start-2");
    expect(stderr).toMatch(/^drover: Run "start-2" exists already with another agent or input\..*\n$/);
    expect(code).toBe(1);
  });

  test("an id that cannot be one is refused with the rule", async () => {
    const { code, stderr } = await drover("start", "adder", "x", "--id", "123");
    expect(stderr).toMatch(/a letter among them/);
    expect(code).toBe(1);
  });

  test("--watch shows live text and each step, and ends with the run", async () => {
    const { code, stdout, stderr } = await drover("start", "adder", "x", "--id", "start-3", "--watch");
    expect(stderr).toBe("run start-3\n");
    expect(stdout).toMatch(/model asks for 2 calls: add \{"a":1,"b":2\}, add/);
    expect(stdout).toMatch(/add call-1-1 ok → 3/);
    expect(stdout).toMatch(/^The sums are 3 and 7\.$/m);
    expect(stdout).toMatch(/completed\n$/);
    expect(code).toBe(0);
  });

  test("--watch --json gives one object a line, numbered, to the end", async () => {
    const { code, stdout } = await drover("start", "adder", "x", "--watch", "--json");
    const events = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { type: string; seq: number; text?: string });
    expect(events.at(-1)).toMatchObject({ type: "run_ended", status: "completed" });
    expect(events.map((event) => event.seq)).toEqual(events.map((event) => event.seq).toSorted((a, b) => a - b));
    expect(events.map((event) => event.text ?? "").join("")).toBe("The sums are 3 and 7.");
    expect(code).toBe(0);
  });

  test("--watch of a run that fails has exit code 1 and tells why", async () => {
    const { code, stdout } = await drover("start", "keyless", "x", "--watch");
    expect(stdout).toMatch(/failed \(model_error\): .*refused the API key \(401\)/);
    expect(code).toBe(1);
  });

  test("metadata and limits arrive", async () => {
    const args = ["--metadata", "team=a", "--metadata", "note=b=c", "--max-turns", "1", "--watch"];
    const { code, stdout } = await drover("start", "adder", "x", "--id", "start-4", ...args);
    expect(stdout).toMatch(/failed \(max_turns\)/);
    expect(code).toBe(1);
    const refused = await drover("start", "adder", "x", "--max-cost-usd", "-1");
    expect(refused.stderr).toMatch(/maxCostUsd/);
    expect(refused.code).toBe(1);
  });
});

test("an agent that no worker knows is waited for, visibly", async () => {
  await startUntil(/held back: .*nobody-knows/, "nobody-knows", "x", "--id", "unknown-1");
  await expect.poll(async () => (await show("unknown-1")).status, { timeout: 15_000 }).toBe("waiting");
  const { stdout } = await drover("show", "unknown-1");
  expect(stdout).toMatch(/waits for +.*nobody-knows/);
});

test("watch of an ended run shows all of it", async () => {
  await drover("start", "adder", "x", "--id", "watch-1", "--watch");
  const { code, stdout } = await drover("watch", "watch-1");
  expect(stdout).toMatch(/^\[0\] queued\n[^]*The sums are 3 and 7\.\n[^]*completed\n$/);
  expect(code).toBe(0);
});

test("Ctrl-C stops watching and leaves the run alone", async () => {
  await drover("start", "sleeper", "x", "--id", "watch-2");
  const watching = startDrover(["watch", "watch-2"], { env });
  await watching.untilOutput(/began/);
  watching.child.kill("SIGINT");
  const { code, stderr } = await watching.ended;
  expect(stderr).toContain("the run goes on");
  expect(code).toBe(130);
  expect((await show("watch-2")).status).toBe("running");
});

test("show has the state, the tokens and the transcript in blocks", async () => {
  await drover("start", "adder", "Add them.", "--id", "show-1", "--watch");
  const { code, stdout } = await drover("show", "show-1");
  expect(stdout).toMatch(/status +completed/);
  expect(stdout).toMatch(/tokens +\d+ in, \d+ out/);
  expect(stdout).toContain("user\n  Add them.");
  expect(stdout).toContain('→ add {"a":1,"b":2} call-1-1');
  expect(stdout).toContain("tool add call-1-2 ok\n  7");
  expect(stdout).toContain("assistant\n  The sums are 3 and 7.");
  expect(code).toBe(0);
  const view = await show("show-1");
  expect(view).toMatchObject({ runId: "show-1", status: "completed", stopReason: "answered" });
  expect(view.transcript.map((message) => message.role)).toEqual(["user", "assistant", "tool", "tool", "assistant"]);
});

test("list filters, pages and says so to people and programs", async () => {
  for (const id of ["list-1", "list-2", "list-3"]) await drover("start", "keyless", id, "--id", id, "--watch");
  const table = await drover("list", "--agent", "keyless", "--status", "failed");
  expect(table.stdout).toMatch(/^RUN +AGENT +STATUS +TURNS/);
  expect(table.stdout).toMatch(/^list-3 +keyless +failed \(model_error\) +0/m);
  const first = await drover("list", "--agent", "keyless", "--limit", "2", "--json");
  const page = JSON.parse(first.stdout) as { runs: View[]; cursor: string };
  expect(page.runs).toHaveLength(2);
  const next = await drover("list", "--agent", "keyless", "--limit", "1000", "--cursor", page.cursor, "--json");
  const ids = [...page.runs, ...(JSON.parse(next.stdout) as { runs: View[] }).runs].map((run) => run.runId);
  expect(ids).toEqual(expect.arrayContaining(["list-1", "list-2", "list-3"]));
  expect(new Set(ids).size).toBe(ids.length);
  const none = await drover("list", "--status", "paused");
  expect(none).toEqual({ code: 0, stdout: "", stderr: "no runs\n" });
});

describe("cancel", () => {
  test("ends a run in the middle of a model call; again it is cancelled already", async () => {
    await startUntil(/began/, "sleeper", "x", "--id", "cancel-1");
    const { code, stdout } = await drover("cancel", "cancel-1", "--by", "ada", "--reason", "enough");
    expect(stdout).toBe("cancel-1  cancelled\n");
    expect(code).toBe(0);
    const watched = await drover("watch", "cancel-1");
    expect(watched.stdout).toMatch(/cancelled by ada/);
    expect(watched.code).toBe(1);
    expect((await drover("cancel", "cancel-1")).stdout).toBe("cancel-1  was cancelled already\n");
  });

  test("of a run that has ended otherwise fails", async () => {
    await drover("start", "adder", "x", "--id", "cancel-2", "--watch");
    const { code, stderr } = await drover("cancel", "cancel-2");
    expect(stderr).toMatch(/Run "cancel-2" is completed already/);
    expect(code).toBe(1);
  });
});

describe("decisions", () => {
  test("show and watch give the exact commands; approve runs the call", async () => {
    await startUntil(/main\.ts deny approve-1 call-1-1/, "payer", "x", "--id", "approve-1");
    const shown = await drover("show", "approve-1");
    expect(shown.stdout).toMatch(/call-1-1 pay \{"euros":5\} waits for approval/);
    const command = /^ +.*main\.ts (approve .*)$/m.exec(shown.stdout)?.[1]?.split(" ") ?? [];
    const { code, stdout } = await drover(...command);
    expect(stdout).toBe("approve-1  call-1-1 approved\n");
    expect(code).toBe(0);
    expect((await drover("watch", "approve-1")).stdout).toMatch(/pay call-1-1 ok → paid 5/);
  });

  test("deny tells the model why, without naming the call when only one waits", async () => {
    await startUntil(/waits for approval/, "payer", "x", "--id", "deny-1");
    const { code, stdout } = await drover("deny", "deny-1", "--reason", "too dear", "--json");
    expect(JSON.parse(stdout)).toMatchObject({ runId: "deny-1" });
    expect(code).toBe(0);
    await drover("watch", "deny-1");
    const denied = (await show("deny-1")).transcript.find((message) => message.role === "tool");
    expect(denied).toMatchObject({ outcome: "denied", content: expect.stringContaining("too dear") as string });
  });

  test("about nothing are refused", async () => {
    await drover("start", "adder", "x", "--id", "approve-2", "--watch");
    const unnamed = await drover("approve", "approve-2");
    expect(unnamed.stderr).toMatch(/waits for no decision/);
    const named = await drover("approve", "approve-2", "call-1-1");
    expect(named.stderr).toMatch(/does not wait for a person/);
    expect([unnamed.code, named.code]).toEqual([1, 1]);
  });
});

describe("retry", () => {
  test("goes on with a failed run, with wider limits", async () => {
    await drover("start", "adder", "x", "--id", "retry-1", "--max-turns", "1", "--watch");
    const { code, stdout } = await drover("retry", "retry-1", "--max-turns", "5", "--by", "ada", "--watch");
    expect(stdout).toMatch(/retried by ada/);
    expect(stdout).toMatch(/completed\n$/);
    expect(code).toBe(0);
  });

  test("of a run that did not fail is refused", async () => {
    await drover("start", "adder", "x", "--id", "retry-2", "--watch");
    const { code, stderr } = await drover("retry", "retry-2");
    expect(stderr).toMatch(/only a failed run can be retried/);
    expect(code).toBe(1);
  });
});
