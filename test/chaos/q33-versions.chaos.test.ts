// Catches: a rolling deployment in which an older worker fails, drops or damages the runs of a newer one, uses up their
// attempts, or loses what it does not know; and jobs of other makes that kill a worker.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { minReader } from "../../src/core/run.ts";
import { createDroverServer } from "../../src/server/create-server.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { eventually } from "../support/eventually.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { makeWorld, resultsOf, runIdOf, type World } from "../support/world.ts";
import { judge } from "./support/judge.ts";
import { isLong } from "./support/seed.ts";

/** Each step that an older worker is given is put off by up to 2 s. */
const turnCount = isLong ? 4 : 2;
const runCount = isLong ? 100 : 6;
const newer = fileURLToPath(new URL("support/newer-version.ts", import.meta.url));
const root = fileURLToPath(new URL("../..", import.meta.url));

function respond(request: FakeRequest): FakeReply {
  const turn = turnOf(request.body);
  const text = `${turn} of ${runIdOf(request)}`;
  if (turn === turnCount) return { text, delayMs: 30 };
  const toolCalls = ["look", "put"].map((name) => ({ name, arguments: { note: `${name}-${turn}`, takeMs: 20 } }));
  return { text, toolCalls, delayMs: 30 };
}

const named = (kind: string): string[] => Array.from({ length: runCount }, (_, index) => `${kind}-${index}`);

/** Of the version that writes a run's record, and of the oldest that may read it. */
async function versionsOf({ redis, keys }: World, runId: string): Promise<string> {
  return (await redis.hmget(keys.run(runId).head, "v", "min")).join("/");
}

describe("workers of two versions side by side", () => {
  test("[Q33] an older worker hands back what it may not touch, uses up nothing, says so, and the newer one does it", async () => {
    let isHeld = true;
    const hold = (): Promise<never> => new Promise(() => {});
    const world = await makeWorld({
      respond: (request) => (isHeld && runIdOf(request).startsWith("newer") ? hold() : respond(request)),
      graceMs: 300,
    });
    const v2 = await world.work({ preload: newer });
    const ids = named("newer");
    // Started over the queue: the version that takes the start writes the record.
    const start = (runId: string): Promise<unknown> =>
      world.plainQueue("runs").add("start", { agent: "e2e", input: `${runId} go` }, { jobId: runId });
    await Promise.all(ids.map(start));
    await world.server.received(runCount - 1);
    expect(await versionsOf(world, ids[0] ?? "")).toBe("99/99");
    const older = await Promise.all([world.work(), world.work()]);
    // Back: the newer one goes with all runs in hand, and only older ones are left. Nothing moves, nothing is lost.
    v2.terminate();
    await v2.exit;
    isHeld = false;
    const refusals = (): string[] =>
      older.flatMap((worker) => worker.logLines().filter((line) => line.includes("written by a newer version")));
    await eventually(() => refusals()[0]);
    const asked = world.server.requests.length;
    await world.drover.start("e2e", "own-1 go", { runId: "own-1" });
    expect(await world.drover.get("own-1").result({ timeoutMs: 30_000 })).toMatchObject({ status: "completed" });
    expect(world.server.requests.length).toBe(asked + turnCount);
    expect(refusals()[0]).toMatch(/"code":"unsupported".*Upgrade this process/);
    // Forward again, an older one still beside it.
    await world.work({ preload: newer });
    older[1]?.terminate();
    const reader = world.drover; // of the older version: it may not read them either
    await expect(reader.get(ids[0] ?? "").status()).rejects.toMatchObject({ code: "unsupported" });
    for (const runId of ids) {
      const ended = async (): Promise<string | undefined> =>
        (await world.redis.hget(world.keys.run(runId).head, "status")) === "completed" ? "ended" : undefined;
      await eventually(ended, 100_000); // an older one puts a step off by up to 2 s, each time it is given it
      const head = JSON.parse((await world.redis.hget(world.keys.run(runId).head, "head")) ?? "{}") as Record<
        string,
        unknown
      >;
      expect(head).not.toHaveProperty("error");
    }
    // Beside the calls that the newer one gave up with its end, the server was asked once a turn.
    expect(world.server.requests.length).toBe(runCount + (runCount + 1) * turnCount);
    expect(older[0]?.exited()).toBe(false);
  });

  test("[Q33] a rollback of the same schema loses nothing, and keeps the fields that it does not know", async () => {
    const world = await makeWorld({ respond });
    const ids = named("field");
    await Promise.all(ids.map((runId) => world.drover.start("e2e", `${runId} go`, { runId, delayMs: 1_000 })));
    for (const runId of ids) {
      const key = world.keys.run(runId).head;
      const head = JSON.parse((await world.redis.hget(key, "head")) ?? "{}") as Record<string, unknown>;
      await world.redis.hset(key, "v", "99", "head", JSON.stringify({ ...head, fieldOfTheFuture: { kept: runId } }));
    }
    await Promise.all([world.work(), world.work()]);
    await resultsOf(
      ids.map((runId) => world.drover.get(runId)),
      60_000,
    );
    for (const runId of ids) {
      expect(JSON.parse((await world.redis.hget(world.keys.run(runId).head, "head")) ?? "{}")).toMatchObject({
        fieldOfTheFuture: { kept: runId },
      });
      expect(await versionsOf(world, runId)).toBe(`99/${minReader}`);
    }
    await judge(world, { usage: "exact" });
  });
});

/** A version of this repository that writes schema 2; a copy without history does not have it. */
const olderCommit = "6192d77";

function hasCommit(): boolean {
  try {
    execFileSync("git", ["cat-file", "-e", `${olderCommit}^{commit}`], { cwd: root, stdio: "ignore" });
    return existsSync(join(root, "node_modules"));
  } catch {
    return false;
  }
}

/** Its tools, which all succeed, note that they begin and not how they end; the judge reads the notes of both versions. */
function tellAsNow(file: string): void {
  const text = readFileSync(file, "utf8");
  const now = text.replace(
    "appendFileSync(file, `${JSON.stringify({ ...entry,",
    "for (const told of [{ type: 'begun' }, { type: 'ended', outcome: 'ok' }])\n" +
      "appendFileSync(file, `${JSON.stringify({ ...told, ...entry,",
  );
  expect(now).not.toBe(text);
  writeFileSync(file, now);
}

test.skipIf(!isLong || !hasCommit())(
  "[Q33] a real older version and this one share 100 runs, forward and back",
  async () => {
    const dir = mkdtempSync(join(tmpdir(), "drover-older-"));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    const archive = execFileSync("git", ["archive", olderCommit], { cwd: root, maxBuffer: 2 ** 30 });
    execFileSync("tar", ["-x", "-C", dir], { input: archive });
    symlinkSync(join(root, "node_modules"), join(dir, "node_modules"));
    tellAsNow(join(dir, "test/support/ledger.ts"));
    const world = await makeWorld({ respond });
    const program = join(dir, "test/support/e2e-worker.ts");
    const older = await Promise.all([world.work({ program }), world.work({ program })]);
    const ids = named("shared");
    // Runs that the older one makes keep the form that it knows, whoever goes on with them.
    for (const runId of ids) {
      await world.plainQueue("runs").add("start", { agent: "e2e", input: `${runId} go` }, { jobId: runId });
    }
    await world.server.received(runCount);
    const runs = ids.map((runId) => world.drover.get(runId));
    const current = await world.work();
    older[0]?.terminate();
    await world.server.received(runCount * 2);
    current.terminate();
    await current.exit;
    await world.server.received(runCount * 3);
    await world.work();
    older[1]?.terminate();
    await resultsOf(runs, 120_000);
    await judge(world);
  },
);

describe("producers and workers of other makes", () => {
  test("[Q33] a start as a Python client adds it becomes a run, and one that it failed is shown with its plain text", async () => {
    const world = await makeWorld({ respond });
    const { redis, keys } = world;
    const queue = `${keys.queuePrefix}:runs`;
    // What `Queue.add` of the Python package 3.0.4 writes: data as JSON, options with short names, no priority.
    const add = async (runId: string, list: string, more: Record<string, string> = {}): Promise<void> => {
      const data = JSON.stringify({ agent: "e2e", input: `${runId} go` });
      const opts = JSON.stringify({ jobId: runId, attempts: 0, tm: "{}" });
      const fields = { name: "start", data, opts, timestamp: String(Date.now()), delay: "0", priority: "0", ...more };
      await redis.hset(`${queue}:${runId}`, fields);
      if (list === "failed") await redis.zadd(`${queue}:failed`, Date.now(), runId);
      else {
        await redis.lpush(`${queue}:${list}`, runId);
        await redis.zadd(`${queue}:marker`, 0, "0");
      }
    };
    await world.work();
    await add("python-1", "wait");
    await eventually(() =>
      world.drover
        .get("python-1")
        .status()
        .catch(() => undefined),
    );
    expect(await world.drover.get("python-1").result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed" });
    await add("python-2", "failed", {
      failedReason: JSON.stringify('it said "no"'),
      stacktrace: JSON.stringify(["Traceback"]),
      atm: "1",
      finishedOn: String(Date.now()),
    });
    const server = createDroverServer({
      redis: world.options.redisUrl,
      prefix: world.prefix,
      http: { keyless: true },
      logger: createSilentLogger(),
    });
    onTestFinished(() => server.close());
    const url = "http://127.0.0.1/ui/queues/api/queues?activeQueue=runs&status=failed&page=1";
    const shown = await server.fetch(new Request(url), { address: "127.0.0.1" });
    const text = await shown.text();
    expect(text).toContain('"failedReason":"it said \\"no\\""');
    await judge(world, { usage: "exact" });
  });
});
