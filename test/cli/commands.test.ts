// The commands that answer, send, delete, list by more than a status, and complete.
import { afterAll, describe, expect, inject, test } from "vitest";
import { toTime } from "../../src/cli/options.ts";
import { createDrover } from "../../src/drover.ts";
import { createKeys } from "../../src/redis/keys.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { cliOf, testPrefix } from "../support/redis.ts";
import { type CliResult, runDrover, startDrover, useWorker } from "./run-drover.ts";

const env = { REDIS_URL: inject("redisUrl"), DROVER_PREFIX: testPrefix() };
const drover = (...args: string[]): Promise<CliResult> => runDrover(args, { env });

useWorker({ ...env, DROVER_STOP_GRACE_MS: "0" }, "asker.ts");

// What only sets the scene needs no process of its own.
const producer = createDrover({ redis: env.REDIS_URL, prefix: env.DROVER_PREFIX, logger: createSilentLogger() });
afterAll(() => producer.close());

/** Starts a run and waits until it does what `pattern` tells, in the words of `watch`. */
async function startUntil(pattern: RegExp, ...args: string[]): Promise<string> {
  const watching = startDrover(["start", ...args, "--watch"], { env });
  await watching.untilOutput(pattern);
  watching.child.kill("SIGINT");
  return (await watching.ended).stdout;
}

describe("answer", () => {
  test("gives a question its answer; watch and show say how, and what is asked", async () => {
    const watched = await startUntil(/answer answer-1 call-1-1 "\.\.\."/, "asker", "go", "--id", "answer-1");
    expect(watched).toMatch(/ask_person call-1-1 waits for an answer of a person/);
    const shown = await drover("show", "answer-1");
    expect(shown.stdout).toMatch(/asks: Which one\? \(red \/ blue\)\n +asked \d{4}-/);
    expect(shown.stdout).toMatch(/answer answer-1 call-1-1 "\.\.\."/);
    const { code, stdout } = await drover("answer", "answer-1", "call-1-1", "blue", "--by", "ann");
    expect({ code, stdout }).toEqual({ code: 0, stdout: "answer-1  call-1-1 answered\n" });
    const after = await drover("watch", "answer-1");
    expect(after.stdout).toMatch(/ask_person call-1-1 answered by ann/);
    expect(after.stdout).toContain('You said: "blue"');
    const replayed = await drover("replay", "answer-1", "--turn", "1");
    expect(replayed.stdout).toMatch(/answer ask_person call-1-1 ok: by ann/);
  });

  test("takes JSON and standard input, and refuses what is neither a question nor JSON", async () => {
    const run = await producer.start("asker", "go", { runId: "answer-2" });
    await expect.poll(async () => (await run.status()).openCalls.length, { timeout: 15_000 }).toBe(1);
    const wrong = await drover("answer", "answer-2", "call-1-1", "{red", "--json-value");
    expect(wrong).toMatchObject({ code: 1, stderr: expect.stringMatching(/^drover: The value is not JSON/) as string });
    const other = await drover("answer", "answer-2", "call-9-9", "red");
    expect(other).toMatchObject({ code: 1, stderr: expect.stringMatching(/call-9-9 .*was not answered/) as string });
    const args = ["answer", "answer-2", "call-1-1", "-", "--json-value", "--json"];
    const { code, stdout } = await runDrover(args, { env, input: '{"colour":"red"}\n' });
    expect(JSON.parse(stdout)).toMatchObject({ runId: "answer-2" });
    expect(code).toBe(0);
    expect((await run.result({ timeoutMs: 15_000 })).output).toContain("colour");
  });
});

test("send tells a waiting run more, and says so of one that has ended", async () => {
  const run = await producer.start("payer", "x", { runId: "send-1" });
  await expect.poll(async () => (await run.status()).status, { timeout: 15_000 }).toBe("waiting");
  const sent = await drover("send", "send-1", "and hurry", "--input-id", "i1");
  expect(sent).toMatchObject({ code: 0, stdout: "send-1  input received\n" });
  await drover("send", "send-1", "and hurry", "--input-id", "i1");
  await run.deny("call-1-1");
  await run.result({ timeoutMs: 15_000 });
  expect((await run.transcript()).filter(({ content }) => content === "and hurry")).toHaveLength(1);
  const late = await drover("send", "send-1", "more");
  expect(late).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/is completed and takes no more input/) as string,
  });
});

test("delete removes a run that has ended, and no other", async () => {
  const run = await producer.start("adder", "x", { runId: "delete-1" });
  await run.result({ timeoutMs: 15_000 });
  expect(await drover("delete", "delete-1")).toEqual({ code: 0, stdout: "delete-1  deleted\n", stderr: "" });
  const again = await drover("delete", "delete-1", "--json");
  expect(JSON.parse(again.stderr)).toMatchObject({ error: { code: "not_found" } });
  await producer.start("nobody", "x", { runId: "delete-2" });
  const refused = await drover("delete", "delete-2");
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringMatching(/cancel it before it is deleted/) as string });
});

test("a run whose record is damaged can be told from the error, and deleted as it is", async () => {
  const redis = cliOf(env.REDIS_URL);
  const { head, feed } = createKeys(env.DROVER_PREFIX).run("spoiled-1");
  await producer.start("nobody", "x", { runId: "spoiled-1" });
  await redis("RPUSH", feed, "{}");
  const cancelled = await drover("cancel", "spoiled-1");
  expect(cancelled).toMatchObject({ code: 1, stderr: expect.stringMatching(/damaged .*: drover delete spoiled-1/) });
  await redis("HDEL", head, "fixed");
  expect((await drover("show", "spoiled-1")).stderr).toMatch(/damaged .*delete the run: drover delete spoiled-1/);
  const deleted = await drover("delete", "spoiled-1");
  const told = "spoiled-1  deleted; its record was damaged: fixed is gone\n";
  expect(deleted).toMatchObject({ code: 0, stdout: told });
  expect(await drover("delete", "spoiled-1")).toMatchObject({ code: 1 });
  await producer.start("nobody", "x", { runId: "spoiled-1" });
  await redis("DEL", head);
  const { stdout } = await drover("delete", "spoiled-1", "--json");
  expect(JSON.parse(stdout)).toEqual({ runId: "spoiled-1", deleted: true, damage: "its head is gone" });
});

describe("list", () => {
  test("by metadata, time, tenant and part of an id, with counts", async () => {
    await producer.start("nobody", "x", { runId: "found-1", metadata: { team: "blue" }, tenant: "t1" });
    await producer.start("nobody", "x", { runId: "found-2", metadata: { team: "red" }, tenant: "t1" });
    await producer.start("nobody", "x", { runId: "found-3", metadata: { team: "blue" } });
    const all = [
      "--search",
      "found",
      "--metadata",
      "team=blue",
      "--tenant",
      "t1",
      "--since",
      "1h",
      "--until",
      "2100-01-01",
    ];
    const { stdout } = await drover("list", ...all, "--json");
    const page = JSON.parse(stdout) as { runs: { runId: string }[]; counts: Record<string, number> };
    expect(page.runs.map(({ runId }) => runId)).toEqual(["found-1"]);
    expect(Object.values(page.counts).reduce((sum, count) => sum + count, 0)).toBe(2);
    const none = await drover("list", "--search", "found", "--until", "1h");
    expect(none).toMatchObject({ code: 0, stderr: "no runs\n" });
    const told = await drover("list", "--tenant", "t1");
    expect(told.stdout).toMatch(/^found-2 +nobody/m);
    expect(told.stderr).toMatch(/^in all of tenant t1: (?:2 queued|2 waiting|1 queued, 1 waiting)\n$/);
  });

  test("times are dates or so long ago", () => {
    expect(toTime("2026-11-30T12:00:00Z")).toBe(Date.UTC(2026, 10, 30, 12));
    expect(toTime("2026-11-30")).toBe(Date.UTC(2026, 10, 30));
    for (const [text, ms] of [
      ["90s", 90_000],
      ["15m", 900_000],
      ["2h", 7_200_000],
      ["7d", 604_800_000],
    ] as const) {
      expect(Date.now() - toTime(text) - ms).toBeLessThan(5_000);
      expect(Date.now() - toTime(text) - ms).toBeGreaterThanOrEqual(0);
    }
    for (const text of ["yesterday", "2026-99-01", "h", "-1h", ""]) {
      expect(() => toTime(text)).toThrow(/^Expected a date such as/);
    }
  });
});

describe("completion", () => {
  const offered = async (...words: string[]): Promise<string[]> => {
    const { stdout, stderr, code } = await drover("complete", "--", ...words);
    expect({ stderr, code }).toEqual({ stderr: "", code: 0 });
    return stdout
      .trim()
      .split("\n")
      .map((line) => line.split("\t")[0] ?? "");
  };

  test.each(["bash", "zsh", "fish"])("a script for %s", async (shell) => {
    const { code, stdout } = await drover("completion", shell);
    expect(code).toBe(0);
    expect(stdout).toContain("drover complete --");
  });

  test("offers commands and options, hidden ones apart", async () => {
    expect(await offered("re")).toEqual(expect.arrayContaining(["replay", "retry"]));
    expect(await offered("start", "--pri")).toEqual(expect.arrayContaining(["--priority"]));
    expect(await offered("")).not.toContain("demo-worker");
    expect(await offered("list", "--status", "com")).toEqual(["completed", ":4"]);
  });

  test("offers the calls that wait for a person", async () => {
    const run = await producer.start("payer", "x", { runId: "complete-2" });
    await expect.poll(async () => (await run.status()).status, { timeout: 15_000 }).toBe("waiting");
    expect(await offered("approve", "complete-2", "")).toEqual(["call-1-1", ":4"]);
    expect(await offered("answer", "nobody", "")).toEqual([":4"]);
  });

  test("offers the newest runs, and agents that are known", async () => {
    await producer.start("nobody", "x", { runId: "complete-1" });
    expect(await offered("show", "complete")).toContain("complete-1");
    // A worker tells of its agents a moment after it is ready.
    const agents = (): Promise<string[]> => offered("start", "");
    await expect.poll(agents, { timeout: 15_000 }).toEqual(expect.arrayContaining(["adder", "payer"]));
    expect(await offered("list", "--agent", "")).toContain("adder");
  });

  test("offers names without Redis too, and never an error", async () => {
    const away = { REDIS_URL: "redis://127.0.0.1:1" };
    const { code, stdout, stderr } = await runDrover(["complete", "--", "show", ""], { env: away });
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: ":4\n", stderr: "" });
    expect((await runDrover(["complete", "--", "sho"], { env: away })).stdout).toMatch(/^show\t/);
  });

  test("of no shell is refused", async () => {
    expect(await drover("completion", "tcsh")).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/Allowed choices are zsh, bash, fish/) as string,
    });
  });
});
