import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, expect, inject, test } from "vitest";
import type { Diagnosis } from "../../src/cli/doctor/diagnosis.ts";
import { createKeys } from "../../src/redis/keys.ts";
import { startTestRedis, testPrefix } from "../support/redis.ts";
import { fixture, runDrover, startDrover } from "./run-drover.ts";

let server: Server;
let answer: { status: number; body: string };
let key: string | undefined;

beforeAll(async () => {
  server = createServer((request, response) => {
    key = request.headers.authorization;
    response.writeHead(answer.status, { "content-type": "application/json" }).end(answer.body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterEach(() => {
  key = undefined;
});
afterAll(() => new Promise((resolve) => server.close(resolve)));

type Report = { ok: boolean; checks: Diagnosis[]; code: number | null; of(check: string): Diagnosis | undefined };

async function doctor(env: Record<string, string>): Promise<Report> {
  const { code, stdout } = await runDrover(["doctor", "--json"], { env });
  const report = JSON.parse(stdout) as { ok: boolean; checks: Diagnosis[] };
  return { ...report, code, of: (check) => report.checks.find((one) => one.check === check) };
}

const base = (): Record<string, string> => ({
  REDIS_URL: inject("redisUrl"),
  DROVER_PREFIX: testPrefix(),
  OPENAI_BASE_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
  OPENAI_API_KEY: "sk-secret",
  DROVER_MODEL: "small",
});

test("all well: exit code 0, everything looked at", async () => {
  answer = { status: 200, body: JSON.stringify({ data: [{ id: "small" }] }) };
  const report = await doctor(base());
  expect(report.checks.filter(({ state }) => state === "error")).toEqual([]);
  const looked = [
    "settings",
    "redis",
    "version",
    "maxmemory-policy",
    "appendonly",
    "clock",
    "memory",
    "retention",
    "connections",
    "runs",
    "workers",
    "persons",
  ];
  expect(report.checks.map(({ check }) => check)).toEqual(expect.arrayContaining(looked));
  expect(report.of("queue model")).toMatchObject({
    state: "ok",
    detail: expect.stringContaining("0 waiting") as string,
  });
  expect(report.of("model")).toMatchObject({ state: "ok" });
  expect(key).toBe("Bearer sk-secret");
  expect(report.code).toBe(0);
});

test("for people it is one line each with the sum", async () => {
  answer = { status: 200, body: JSON.stringify({ data: [{ id: "small" }] }) };
  const { code, stdout } = await runDrover(["doctor"], { env: base() });
  expect(stdout).toMatch(/^ok +redis +answers at \S+ in [\d.]+ ms/m);
  expect(stdout).toMatch(/0 errors, \d warnings?\n$/);
  expect(stdout).not.toContain("sk-secret");
  expect(code).toBe(0);
});

test.each([
  [401, "", "error", /refused the API key \(401\): correct OPENAI_API_KEY/],
  [404, "", "warning", /lists no models \(404\).*OPENAI_BASE_URL/],
  [500, "", "warning", /answered 500/],
  [200, '{"data":[{"id":"other"}]}', "warning", /does not list "small": set DROVER_MODEL/],
] as const)("a model server that answers %d %s is an %s", async (status, body, state, detail) => {
  answer = { status, body };
  const report = await doctor(base());
  expect(report.of("model")).toMatchObject({ state, detail: expect.stringMatching(detail) as string });
  expect(report.code).toBe(state === "error" ? 1 : 0);
});

test("a model server that cannot be reached is an error; none at all a warning", async () => {
  const { OPENAI_API_KEY: _key, OPENAI_BASE_URL: _url, ...rest } = base();
  const unreachable = await doctor({ ...rest, OPENAI_BASE_URL: "http://127.0.0.1:1/v1" });
  expect(unreachable.of("model")).toMatchObject({ state: "error" });
  const none = await doctor(rest);
  expect(none.of("model")).toMatchObject({ state: "warning" });
});

test("eviction is an error, missing persistence a warning", async () => {
  const redis = await startTestRedis({
    own: true,
    args: ["--maxmemory-policy", "allkeys-lru", "--appendonly", "no", "--maxmemory", "100mb"],
  });
  const report = await doctor({ ...base(), REDIS_URL: redis.url });
  expect(report.of("maxmemory-policy")).toMatchObject({ state: "error" });
  expect(report.of("appendonly")).toMatchObject({ state: "warning" });
  expect(report.of("memory")?.detail).toMatch(/ of 100\.0 MiB used/);
  expect(report).toMatchObject({ ok: false, code: 1 });
  await redis.stop();
});

test("Redis that is away is an error, and the model is still looked at", async () => {
  answer = { status: 401, body: "" };
  const report = await doctor({ ...base(), REDIS_URL: "redis://127.0.0.1:1" });
  expect(report.of("redis")).toMatchObject({
    state: "error",
    detail: expect.stringContaining("start Redis") as string,
  });
  expect(report.of("model")?.state).toBe("error");
  expect(report.code).toBe(1);
});

test("runs that have owed a step for over a minute are a warning that names them", async () => {
  answer = { status: 200, body: '"small"' };
  const env = base();
  const client = new Redis(inject("redisUrl"));
  await client.zadd(createKeys(env.DROVER_PREFIX).owing, Date.now() - 61_000, "stuck-1", Date.now(), "fresh-1");
  const report = await doctor(env);
  client.disconnect();
  expect(report.of("runs")).toMatchObject({
    state: "warning",
    detail: expect.stringMatching(/^1 run owed a step for over 1 min \(stuck-1\): is a worker/) as string,
  });
  expect(report.code).toBe(0);
});

test("steps that wait without any worker are a warning, and none with one there", async () => {
  answer = { status: 200, body: '"small"' };
  const redis = await startTestRedis({ own: true });
  const env = { ...base(), REDIS_URL: redis.url };
  await runDrover(["start", "sleeper", "x", "--delay-ms", "600000"], { env });
  await runDrover(["start", "sleeper", "x"], { env });
  const before = await doctor(env);
  expect(before.of("queue model")).toMatchObject({
    state: "warning",
    detail: expect.stringMatching(/^1 waiting, 0 active, 1 delayed, the oldest for .*: no worker serves it/) as string,
  });
  expect(before.of("workers")).toMatchObject({
    state: "warning",
    detail: "none, and 1 step waiting: start a worker",
  });
  expect(before.of("agents")).toMatchObject({ state: "warning", detail: expect.stringMatching(/sleeper/) as string });
  const worker = startDrover(["worker", fixture("agents.ts")], { env: { ...env, DROVER_STOP_GRACE_MS: "0" } });
  await worker.untilOutput(/ready/);
  // A worker tells of itself a moment after it is ready.
  await expect
    .poll(async () => (await doctor(env)).of("workers"), { timeout: 15_000 })
    .toMatchObject({
      state: "ok",
      detail: expect.stringMatching(/^1 process on \S+, \d+ of \d+ steps at a time; agents .*sleeper/) as string,
    });
  expect((await doctor(env)).of("agents")).toBeUndefined();
  worker.child.kill("SIGTERM");
  await worker.ended;
  await redis.stop();
});
