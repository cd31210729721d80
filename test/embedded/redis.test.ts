// The private Redis: that it is there once per directory, keeps its data, and is never left behind.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { afterEach, beforeEach, expect, test } from "vitest";
import { isAlive } from "../../src/embedded/probe.ts";
import { type EmbeddedRedis, findEmbeddedRedis, startEmbeddedRedis } from "../../src/embedded/redis.ts";

let dir: string;
const opened: EmbeddedRedis[] = [];
const owners: ChildProcess[] = [];

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "drover-embedded-"));
});

afterEach(async () => {
  for (const owner of owners.splice(0)) owner.kill("SIGKILL");
  for (const redis of opened.splice(0)) {
    await redis.stop();
    await untilDead(redis.serverPid);
  }
  rmSync(dir, { recursive: true, force: true });
});

const toSocketPath = (url: string): string => decodeURIComponent(new URL(url).pathname);

async function start(at: string = dir): Promise<EmbeddedRedis> {
  const redis = await startEmbeddedRedis({ dir: at });
  opened.push(redis);
  return redis;
}

async function withClient<T>(url: string, fn: (client: Redis) => Promise<T>): Promise<T> {
  const client = new Redis(toSocketPath(url), { maxRetriesPerRequest: 1 });
  try {
    return await fn(client);
  } finally {
    client.disconnect();
  }
}

async function untilDead(pid: number): Promise<void> {
  await expect.poll(() => isAlive(pid), { timeout: 10_000, interval: 20 }).toBe(false);
}

/** Starts another process that owns the Redis of `dir`. */
async function startOwner(): Promise<{ child: ChildProcess; serverPid: number; url: string }> {
  const child = spawn(process.execPath, [join(import.meta.dirname, "owner.ts"), dir], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  owners.push(child);
  const line = await new Promise<string>((resolve, reject) => {
    child.stdout?.once("data", (chunk: Buffer) => resolve(chunk.toString()));
    child.once("exit", (code) => reject(new Error(`the owner ended with code ${code}`)));
  });
  return { child, ...(JSON.parse(line) as { serverPid: number; url: string }) };
}

function kill(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  return new Promise((resolve) => {
    child.once("exit", () => resolve());
    child.kill(signal);
  });
}

test("it is durable, never evicts, listens on no port and only for this user", async () => {
  const redis = await start();
  expect(redis.owned).toBe(true);
  await withClient(redis.url, async (client) => {
    const settings = async (name: string) => ((await client.config("GET", name)) as string[])[1];
    expect(await settings("appendonly")).toBe("yes");
    expect(await settings("maxmemory-policy")).toBe("noeviction");
    expect(await settings("port")).toBe("0");
  });
  expect(statSync(toSocketPath(redis.url)).mode & 0o077).toBe(0);
});

test("stop ends the server and leaves the data, which the next start reads", async () => {
  const first = await start();
  await withClient(first.url, (client) => client.set("kept", "yes"));
  await Promise.all([first.stop(), first.stop()]);
  await untilDead(first.serverPid);
  expect(await findEmbeddedRedis(dir)).toBeUndefined();
  const second = await start();
  expect(await withClient(second.url, (client) => client.get("kept"))).toBe("yes");
});

test("a second start joins the running one and its stop leaves it alone", async () => {
  const first = await start();
  const second = await start();
  expect(second).toMatchObject({ url: first.url, owned: false, serverPid: first.serverPid });
  await second.stop();
  expect(await findEmbeddedRedis(dir)).toBe(first.url);
});

test("ten starts at once give one server", async () => {
  const all = await Promise.all(Array.from({ length: 10 }, () => start()));
  expect(new Set(all.map((redis) => redis.serverPid)).size).toBe(1);
  expect(all.filter((redis) => redis.owned)).toHaveLength(1);
});

test.each(["SIGKILL", "SIGTERM", "SIGINT"] as const)(
  "it is not left behind when its owner ends by %s",
  async (signal) => {
    const owner = await startOwner();
    expect(isAlive(owner.serverPid)).toBe(true);
    await kill(owner.child, signal);
    await untilDead(owner.serverPid);
  },
);

test("a start right after the owner was killed gets a server of its own with the data", async () => {
  const owner = await startOwner();
  await withClient(owner.url, (client) => client.set("kept", "yes"));
  await kill(owner.child, "SIGKILL");
  const next = await start();
  expect(next.owned).toBe(true);
  expect(await withClient(next.url, (client) => client.get("kept"))).toBe("yes");
});

test("a server whose owner and watchdog were killed is ended, and the next one has its data", async () => {
  const owner = await startOwner();
  await withClient(owner.url, (client) => client.set("kept", "yes"));
  const processes = execFileSync("ps", ["-eo", "pid=,pgid="], { encoding: "utf8" })
    .trim()
    .split("\n")
    .map((line) => line.trim().split(/\s+/).map(Number));
  const group = processes.find(([pid]) => pid === owner.serverPid)?.[1];
  const shells = processes.filter(([pid, pgid]) => pgid === group && pid !== owner.serverPid);
  expect(shells.length).toBeGreaterThan(0);
  for (const [pid] of shells) process.kill(pid ?? 0, "SIGKILL");
  await kill(owner.child, "SIGKILL");
  const next = await start();
  await untilDead(owner.serverPid);
  expect(next.owned).toBe(true);
  expect(await withClient(next.url, (client) => client.get("kept"))).toBe("yes");
});

test("stale files of a machine that lost power are cleaned up", async () => {
  const gone = 2 ** 22 - 3;
  expect(isAlive(gone)).toBe(false);
  const socketPath = join(dir, "redis.sock");
  writeFileSync(socketPath, "");
  writeFileSync(join(dir, "redis.lock"), `${gone} token`);
  writeFileSync(join(dir, "redis.json"), JSON.stringify({ socketPath, serverPid: gone, ownerPid: gone }));
  expect((await start()).owned).toBe(true);
  expect(existsSync(join(dir, "redis.lock"))).toBe(false);
});

test("a state file that names a process which is no Redis is stale too", async () => {
  const socketPath = join(dir, "redis.sock");
  const state = { socketPath, serverPid: process.ppid, ownerPid: process.ppid };
  writeFileSync(join(dir, "redis.json"), JSON.stringify(state));
  expect((await start()).serverPid).not.toBe(process.ppid);
});

test.each(["", "{", "[]", "null"])("a state file that says %j is ignored", async (content) => {
  writeFileSync(join(dir, "redis.json"), content);
  expect((await start()).owned).toBe(true);
});

test("a directory too deep for a socket gets one elsewhere", async () => {
  const deep = join(dir, "x".repeat(120));
  const redis = await start(deep);
  expect(await withClient(redis.url, (client) => client.ping())).toBe("PONG");
  expect(await findEmbeddedRedis(deep)).toBe(redis.url);
  await redis.stop();
  expect(existsSync(toSocketPath(redis.url))).toBe(false);
});

test.each(["Öl & Käse % #", "what?"])("a directory named %j works", async (name) => {
  const redis = await start(join(dir, name));
  expect(await withClient(redis.url, (client) => client.ping())).toBe("PONG");
});

test("without a server on PATH the error gives one command for apt, brew and docker compose", async () => {
  const started = startEmbeddedRedis({ dir, machine: { path: "", uid: 1000, osRelease: "ID=debian" } });
  await expect(started).rejects.toMatchObject({ code: "unsupported" });
  const message = await started.catch((error: Error) => error.message);
  expect(message).toContain("sudo apt-get install -y redis-server");
  expect(message).toContain("brew install redis");
  expect(message).toContain("docker compose up -d redis");
  expect(existsSync(join(dir, "redis.lock"))).toBe(false);
});

/** A PATH whose apt-get writes down what it was asked and then runs `body`. */
function fakeApt(body: string): string {
  const bin = join(dir, "bin");
  mkdirSync(bin);
  writeFileSync(join(bin, "apt-get"), `#!/bin/sh\necho "$@" >> "${dir}/apt.log"\n${body}\n`);
  chmodSync(join(bin, "apt-get"), 0o755);
  return bin;
}

test("as root on Ubuntu it is installed from the distribution, with a line before and after", async () => {
  const real = execFileSync("sh", ["-c", "command -v redis-server || command -v valkey-server"], { encoding: "utf8" });
  const bin = fakeApt(`[ "$1" = install ] && /bin/ln -s ${real.trim()} "${dir}/bin/redis-server"; exit 0`);
  const lines: string[] = [];
  const machine = { path: bin, uid: 0, osRelease: 'NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian' };
  opened.push(await startEmbeddedRedis({ dir, machine, log: (line) => lines.push(line) }));
  expect(readFileSync(join(dir, "apt.log"), "utf8")).toBe("update\ninstall -y --no-install-recommends redis-server\n");
  expect(lines).toEqual([
    expect.stringContaining("installing it from the distribution"),
    expect.stringMatching(/^Installed .*redis-server in \d/),
  ]);
});

test("an installation that fails says why", async () => {
  const path = fakeApt('[ "$1" = install ] && echo "E: Unable to locate package" >&2; exit 100');
  const started = startEmbeddedRedis({ dir, machine: { path, uid: 0, osRelease: "ID=debian" } });
  await expect(started).rejects.toThrow(/could not be installed: .*E: Unable to locate package/);
});

test("a server that does not start says why", async () => {
  const bin = join(dir, "bin");
  mkdirSync(bin);
  writeFileSync(join(bin, "redis-server"), "#!/bin/sh\nexit 3\n");
  chmodSync(join(bin, "redis-server"), 0o755);
  const started = startEmbeddedRedis({ dir, machine: { path: bin, uid: 1000, osRelease: "" } });
  await expect(started).rejects.toThrow(/redis-server did not start/);
});
