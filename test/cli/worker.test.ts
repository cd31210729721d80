// The life of a worker process and of `dev`: what it says when it is ready, how it stops, why it does not start.
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { findEmbeddedRedis } from "../../src/embedded/redis.ts";
import { startTestRedis, testPrefix } from "../support/redis.ts";
import { freePort } from "../support/redis-server.ts";
import { fixture, runDrover, startDrover } from "./run-drover.ts";

const env = { REDIS_URL: inject("redisUrl"), DROVER_PREFIX: testPrefix() };
let dir: string;

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "drover-worker-"));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

test.each(["SIGTERM", "SIGINT"] as const)(
  "a worker says what it is, and %s stops it with exit code 0",
  async (signal) => {
    const worker = startDrover(["worker", fixture("agents.ts"), "--concurrency", "7"], { env });
    const [line] = await worker.untilOutput(/^worker .*\n/m);
    expect(line).toMatch(
      /agents adder, payer, keyless, sleeper \| queues runs, model, tools \| concurrency 7 \| redis /,
    );
    worker.child.kill(signal);
    const { code, stderr } = await worker.ended;
    expect(stderr).toContain("stopping: steps have 10 s to finish");
    expect(code).toBe(0);
  },
);

test("the ready line hides the password", async () => {
  const redis = await startTestRedis({ own: true, args: ["--requirepass", "hunter2"] });
  const url = redis.url.replace("redis://", "redis://:hunter2@");
  const worker = startDrover(["worker", fixture("agents.ts")], { env: { REDIS_URL: url } });
  const [line] = await worker.untilOutput(/^worker .*\n/m);
  expect(line).toContain("redis://:[redacted: password]@");
  worker.child.kill("SIGTERM");
  const { stdout, stderr } = await worker.ended;
  expect(stdout + stderr).not.toContain("hunter2");
  await redis.stop();
});

test("a step in hand gets its grace; a second signal ends the process at once", async () => {
  const settings = { ...env, DROVER_PREFIX: testPrefix(), DROVER_STOP_GRACE_MS: "600000" };
  const worker = startDrover(["worker", fixture("agents.ts")], { env: settings });
  await worker.untilOutput(/ready/);
  const watching = startDrover(["start", "sleeper", "x", "--watch"], { env: settings });
  await watching.untilOutput(/began/);
  worker.child.kill("SIGTERM");
  await worker.untilNote(/stopping: steps have 10 min to finish/);
  // One that comes at once with the first is taken for the same.
  const again = setInterval(() => worker.child.kill("SIGTERM"), 20);
  expect((await worker.ended).code).toBe(143);
  clearInterval(again);
  watching.child.kill("SIGINT");
  await watching.ended;
});

test("queues can be chosen", async () => {
  const worker = startDrover(["worker", fixture("agents.ts"), "--queues", "tools, browser"], { env });
  const [line] = await worker.untilOutput(/^worker .*\n/m);
  expect(line).toContain("| queues tools, browser |");
  worker.child.kill("SIGTERM");
  expect((await worker.ended).code).toBe(0);
});

test("a worker does not start without Redis", async () => {
  const url = `redis://127.0.0.1:${await freePort()}`;
  const { code, stdout, stderr } = await runDrover(["worker", fixture("agents.ts")], { env: { REDIS_URL: url } });
  expect(stderr).toMatch(/^drover: Redis at .* cannot be used \(ECONNREFUSED\)/m);
  expect(stdout).toBe("");
  expect(code).toBe(1);
});

test("a worker does not start on a Redis that evicts, and names the setting", async () => {
  const redis = await startTestRedis({ own: true, args: ["--maxmemory-policy", "allkeys-lru"] });
  const { code, stderr } = await runDrover(["worker", fixture("agents.ts")], { env: { REDIS_URL: redis.url } });
  expect(stderr).toMatch(/^drover: maxmemory-policy is "allkeys-lru".*noeviction/m);
  expect(code).toBe(1);
  await redis.stop();
});

test("dev starts a private Redis that other commands find, and both end with Ctrl-C", async () => {
  const dev = startDrover(["dev", fixture("agents.ts")], { cwd: dir });
  await dev.untilOutput(/start adder .* --watch/);
  expect(dev.stdout()).toMatch(/^private Redis unix:\/\/.*\/\.drover\/redis\.sock/);
  const run = await runDrover(["start", "adder", "x", "--id", "dev-1", "--watch"], { cwd: dir });
  expect(run.stdout).toMatch(/completed\n$/);
  expect(run.code).toBe(0);
  dev.child.kill("SIGINT");
  expect((await dev.ended).code).toBe(0);
  expect(await findEmbeddedRedis(join(dir, ".drover"))).toBeUndefined();
  expect(existsSync(join(dir, ".drover/redis.sock"))).toBe(false);
});

test("dev without a file runs the built-in agent and says with which model; its runs are still there", async () => {
  const dev = startDrover(["dev"], { cwd: dir });
  await dev.untilOutput(/start assistant/);
  expect(dev.stderr()).toMatch(/built-in agent "assistant" with a scripted model.*OPENAI_API_KEY/);
  const run = await runDrover(["start", "assistant", "What is 12 * (3 + 4)?", "--watch"], { cwd: dir });
  expect(run.stdout).toMatch(/The calculator says 84\./);
  expect((await runDrover(["show", "dev-1"], { cwd: dir })).code).toBe(0);
  dev.child.kill("SIGTERM");
  expect((await dev.ended).code).toBe(0);
});

test("dev that is killed leaves no Redis behind", async () => {
  const dev = startDrover(["dev", fixture("agents.ts")], { cwd: dir });
  await dev.untilOutput(/ready/);
  dev.child.kill("SIGKILL");
  await dev.ended;
  await expect.poll(() => findEmbeddedRedis(join(dir, ".drover")), { timeout: 10_000 }).toBeUndefined();
});

test("watch waits out an outage of Redis and misses nothing", async () => {
  const redis = await startTestRedis({ own: true });
  const own = { REDIS_URL: redis.url };
  const worker = startDrover(["worker", fixture("agents.ts")], { env: own });
  await worker.untilOutput(/ready/);
  const watching = startDrover(["start", "payer", "x", "--id", "outage-1", "--watch"], { env: own });
  await watching.untilOutput(/waits for approval/);
  await redis.kill9();
  await watching.untilNote(/Redis is away; waiting for it/);
  await redis.restart();
  const approve = (): Promise<number | null> =>
    runDrover(["approve", "outage-1"], { env: own }).then(({ code }) => code);
  await expect.poll(approve, { timeout: 20_000 }).toBe(0);
  const { code, stdout } = await watching.ended;
  expect(stdout.match(/waits for approval/g)).toHaveLength(1);
  expect(stdout).toMatch(/pay call-1-1 ok → paid 5[^]*completed\n$/);
  expect(code).toBe(0);
  worker.child.kill("SIGTERM");
  await worker.ended;
  await redis.stop();
});
