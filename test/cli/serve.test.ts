// `drover serve` and the pages of `drover dev` as processes of their own.
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, inject, onTestFinished, test } from "vitest";
import { deletePrefix, testPrefix } from "../support/redis.ts";
import { freePort } from "../support/redis-server.ts";
import { type CliProcess, fixture, runDrover, startDrover } from "./run-drover.ts";

const redisUrl = inject("redisUrl");
const prefixes: string[] = [];
afterAll(async () => {
  for (const prefix of prefixes) await deletePrefix(redisUrl, prefix);
});

function makeEnv(more: Record<string, string> = {}): Record<string, string> {
  const prefix = testPrefix();
  prefixes.push(prefix);
  return { REDIS_URL: redisUrl, DROVER_PREFIX: prefix, DROVER_HTTP_PORT: "0", ...more };
}

/** Ends with the test. */
async function start(args: string[], env: Record<string, string>): Promise<{ process: CliProcess; url: string }> {
  const process = startDrover(args, { env });
  onTestFinished(async () => {
    process.child.kill("SIGKILL");
    await process.ended;
  });
  const [, url = ""] = await process.untilOutput(/^(?:serving|pages) (\S+) \|/m);
  return { process, url };
}

async function makeKey(env: Record<string, string>, ...args: string[]): Promise<{ id: string; key: string }> {
  const { stdout } = await runDrover(["keys", "create", "ops", "--scope", "admin", "--json", ...args], { env });
  return JSON.parse(stdout) as { id: string; key: string };
}

const statusOf = async (url: string, key?: string): Promise<number> => {
  const response = await fetch(url, key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } });
  await response.text();
  return response.status;
};

/** A port that something else listens on until the test ends. */
async function takePort(): Promise<number> {
  const port = await freePort();
  const other = createServer().listen(port, "127.0.0.1");
  onTestFinished(() => void other.close());
  await new Promise((resolve) => other.once("listening", resolve));
  return port;
}

test("without keys it serves this machine, tells so in one line, and ends on SIGTERM with code 0", async () => {
  const { process, url } = await start(["serve"], makeEnv());
  expect(process.stdout()).toMatch(
    /^serving http:\/\/127\.0\.0\.1:\d+ \| no keys: open to everybody on this machine \| redis \S+ \| metrics http:\S+\/metrics\n$/,
  );
  expect(await statusOf(`${url}/healthz`)).toBe(200);
  expect(await statusOf(`${url}/runs`)).toBe(200);
  process.child.kill("SIGTERM");
  const { code, stderr } = await process.ended;
  expect(code).toBe(0);
  expect(stderr).toMatch(/^stopping: /m);
});

test("a stream that is watched does not keep it from ending", async () => {
  const { process, url } = await start(["serve"], makeEnv());
  const headers = { "content-type": "application/json" };
  const started = await fetch(`${url}/runs`, { method: "POST", headers, body: '{"agent":"clerk","input":"hello"}' });
  const { runId } = (await started.json()) as { runId: string };
  const { body } = await fetch(`${url}/runs/${runId}/events`);
  const reader = body?.getReader();
  expect((await reader?.read())?.done).toBe(false);
  process.child.kill("SIGINT");
  const rest = async (): Promise<void> => {
    while (!(await reader?.read())?.done);
  };
  await rest();
  expect((await process.ended).code).toBe(0);
});

test("keys work, are asked for and stop working while it runs", async () => {
  const env = makeEnv();
  const { url } = await start(["serve"], env);
  const { id, key } = await makeKey(env);
  const poll = (given?: string) => expect.poll(() => statusOf(`${url}/runs`, given), { timeout: 5_000 });
  await poll().toBe(401);
  expect(await statusOf(`${url}/runs`, key)).toBe(200);
  const rotated = await runDrover(["keys", "rotate", id, "--grace", "0", "--json"], { env });
  const fresh = (JSON.parse(rotated.stdout) as { key: string }).key;
  await poll(key).toBe(401);
  await poll(fresh).toBe(200);
  await runDrover(["keys", "remove", id], { env });
  await poll(fresh).toBe(401);
  // The last key is gone, and the server stays closed.
  expect(await statusOf(`${url}/runs`)).toBe(401);
});

test("beyond loopback it wants keys, and with them serves nobody without one", async () => {
  const env = makeEnv();
  const refused = await runDrover(["serve", "--host", "0.0.0.0"], { env });
  expect(refused.code).toBe(1);
  expect(refused.stdout).toBe("");
  expect(refused.stderr).toMatch(/^drover: without keys the server listens on this machine only.*keys create NAME/);
  const { key } = await makeKey(env);
  const { url, process } = await start(["serve", "--host", "0.0.0.0"], env);
  expect(process.stdout()).toContain("| for holders of 1 key |");
  const local = url.replace("0.0.0.0", "127.0.0.1");
  expect(await statusOf(`${local}/runs`)).toBe(401);
  expect(await statusOf(`${local}/runs`, key)).toBe(200);
});

test("keys of the settings are keys", async () => {
  const { key, entry } = JSON.parse(
    (await runDrover(["keys", "create", "ci", "--scope", "read", "--static", "--json"])).stdout,
  ) as { key: string; entry: unknown };
  const env = makeEnv({ DROVER_API_KEYS: JSON.stringify([entry]) });
  const { url, process } = await start(["serve", "--host", "0.0.0.0"], env);
  expect(process.stdout()).toContain("for holders of 1 key");
  const local = url.replace("0.0.0.0", "127.0.0.1");
  expect(await statusOf(`${local}/runs`, key)).toBe(200);
  expect(await statusOf(`${local}/runs`)).toBe(401);
});

test.each([
  [
    "a port in use",
    async () => ["--port", String(await takePort())],
    /port \d+ of 127\.0\.0\.1 is in use.*--port or DROVER_HTTP_PORT/,
  ],
  ["an address of another machine", async () => ["--host", "192.0.2.1"], /without keys/],
  ["a host with a port", async () => ["--host", "localhost 7717"], /Expected a host name or an address/],
  ["no port", async () => ["--port", "99999"], /Expected a whole number from 0 to 65535/],
])("%s is one clear statement", async (_what, args, message) => {
  const { code, stdout, stderr } = await runDrover(["serve", ...(await args())], { env: makeEnv() });
  expect(code).toBe(1);
  expect(stdout).toBe("");
  expect(stderr.trimEnd().split("\n")).toHaveLength(1);
  expect(stderr).toMatch(message);
});

test("without Redis it does not start, and says so without the password", async () => {
  const env = makeEnv({ REDIS_URL: "redis://drover:hunter2@127.0.0.1:1" });
  const { code, stderr } = await runDrover(["serve"], { env });
  expect(code).toBe(1);
  expect(stderr).toMatch(/^drover: .*127\.0\.0\.1:1/);
  expect(stderr).not.toContain("hunter2");
});

test("dev serves its pages on loopback, on the next port if the one that is set is taken, and says which", async () => {
  const dir = mkdtempSync(join(tmpdir(), "drover-dev-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const port = await takePort();
  const env = makeEnv({ DROVER_HTTP_PORT: String(port), DROVER_HTTP_HOST: "0.0.0.0" });
  const { process, url } = await start(["dev", fixture("agents.ts")], env);
  expect(new URL(url).hostname).toBe("127.0.0.1");
  expect(Number(new URL(url).port)).toBeGreaterThan(port);
  await process.untilNote(new RegExp(`port ${port} is in use: the pages are on ${new URL(url).port}`));
  const page = await fetch(url, { headers: { accept: "text/html" } });
  expect(page.status).toBe(200);
  expect(await page.text()).toContain("<!doctype html>");
  const given = await runDrover(["dev", fixture("agents.ts"), "--port", String(port)], { env });
  expect(given.code).toBe(1);
  expect(given.stderr).toContain(`port ${port} of 127.0.0.1 is in use`);
  process.child.kill("SIGINT");
  expect((await process.ended).code).toBe(0);
});
