// Keys made and changed by the command line, as a person and as a program use it.
import { afterAll, expect, inject, test } from "vitest";
import { hashSecret, matchSecret, parseApiKey } from "../../src/api-keys.ts";
import { readConfig } from "../../src/config.ts";
import type { StoredKey } from "../../src/ports.ts";
import { connect } from "../../src/redis/connection.ts";
import { createRedisKeyStore } from "../../src/redis/key-store.ts";
import { createKeys } from "../../src/redis/keys.ts";
import { deletePrefix, testPrefix } from "../support/redis.ts";
import { runDrover } from "./run-drover.ts";

const redisUrl = inject("redisUrl");
const prefix = testPrefix();
const env = { REDIS_URL: redisUrl, DROVER_PREFIX: prefix };
const connection = connect(redisUrl, { role: "producer" });
const store = createRedisKeyStore({ connection, keys: createKeys(prefix) });
afterAll(async () => {
  await connection.close();
  await deletePrefix(redisUrl, prefix);
});

type Made = { key: string; id: string; expiresAt?: string; entry?: Record<string, unknown> };

async function keys<T = Made>(...args: string[]): Promise<T> {
  const { code, stdout, stderr } = await runDrover(["keys", ...args, "--json"], { env });
  expect(stderr).toBe("");
  expect(code).toBe(0);
  return JSON.parse(stdout) as T;
}

function stored(key: StoredKey | undefined): StoredKey {
  if (!key) throw new Error("it is not kept");
  return key;
}

test("create prints the key alone on standard output, once, and keeps its hash", async () => {
  const args = ["keys", "create", "Shop floor", "--scope", "start,read", "--scope", "decide", "--tenant", "acme"];
  const { code, stdout, stderr } = await runDrover(args, { env });
  expect(code).toBe(0);
  const parts = parseApiKey(stdout.trim());
  expect(stdout).toMatch(/^drv_\S+\n$/);
  expect(stderr).toMatch(/of Shop floor \| start, read, decide \| tenant acme \| does not expire/);
  const key = stored(await store.get(parts?.id ?? ""));
  expect(key).toMatchObject({ name: "Shop floor", scopes: ["start", "read", "decide"], tenant: "acme" });
  expect(key.secretHash).toBe(hashSecret(parts?.secret ?? ""));
  expect(JSON.stringify(key) + stderr).not.toContain(parts?.secret);
});

test("create with an end; list shows everything but secrets and hashes", async () => {
  const { key, id, expiresAt } = await keys("create", "temp", "--scope", "read", "--expires", "30d");
  const inDays = (Date.parse(expiresAt ?? "") - Date.now()) / 86_400_000;
  expect(inDays).toBeGreaterThan(29.9);
  expect(inDays).toBeLessThan(30.1);
  const { stdout } = await runDrover(["keys", "list", "--json"], { env });
  expect(stdout).toContain(id);
  expect(stdout).not.toContain("hash");
  expect(stdout).not.toContain(key);
  const table = await runDrover(["keys", "list"], { env });
  expect(table.stdout).toMatch(/^ID\s+NAME\s+SCOPES\s+TENANT\s+CREATED\s+EXPIRES\s+KEPT IN\n/);
  expect(table.stdout).toMatch(new RegExp(`^${id}\\s+temp\\s+read\\s+\\(all\\)`, "m"));
});

test("rotate makes another secret; the old one stays good for its grace and no longer", async () => {
  const made = await keys("create", "rotated", "--scope", "admin");
  const old = parseApiKey(made.key)?.secret ?? "";
  const rotated = await keys("rotate", made.id, "--grace", "10m");
  const fresh = parseApiKey(rotated.key)?.secret ?? "";
  expect(rotated.id).toBe(made.id);
  const key = stored(await store.get(made.id));
  const now = Date.now();
  expect(matchSecret(key, fresh, now)).toBe(hashSecret(fresh));
  expect(matchSecret(key, old, now)).toBe(hashSecret(old));
  expect(matchSecret(key, old, now + 11 * 60_000)).toBeUndefined();
  await keys("rotate", made.id, "--grace", "0");
  const again = stored(await store.get(made.id));
  expect(matchSecret(again, fresh, now)).toBeUndefined();
  expect(matchSecret(again, old, now)).toBeUndefined();
});

test("remove takes it out; what is not there is told", async () => {
  const made = await keys("create", "gone", "--scope", "admin");
  expect(await keys("remove", made.id)).toEqual({ removed: made.id });
  expect(await store.get(made.id)).toBeUndefined();
  const { code, stderr } = await runDrover(["keys", "remove", made.id], { env });
  expect(code).toBe(1);
  expect(stderr).toContain('"drover keys list" shows the ones there are');
});

test("--static needs no Redis and prints an entry that the settings take", async () => {
  const args = [
    "keys",
    "create",
    "CI",
    "--scope",
    "start",
    "--tenant",
    "acme",
    "--expires",
    "1d",
    "--static",
    "--json",
  ];
  const { code, stdout } = await runDrover(args, { env: { REDIS_URL: "redis://127.0.0.1:1" } });
  expect(code).toBe(0);
  const { key, id, entry } = JSON.parse(stdout) as Made;
  const [kept] = readConfig({ DROVER_API_KEYS: JSON.stringify([entry]) }).apiKeys ?? [];
  expect(kept).toMatchObject({ id, name: "CI", scopes: ["start"], tenant: "acme" });
  expect(matchSecret(stored(kept), parseApiKey(key)?.secret ?? "", Date.now())).toBeDefined();
  const withStatic = { ...env, DROVER_API_KEYS: JSON.stringify([entry]) };
  expect((await runDrover(["keys", "list"], { env: withStatic })).stdout).toMatch(/CI .*DROVER_API_KEYS/);
  expect((await runDrover(["keys", "remove", id], { env: withStatic })).stderr).toContain("stands in DROVER_API_KEYS");
});

test.each([
  [["create", "x"], /required option '--scope <scope>'/],
  [["create", "x", "--scope", "root"], /Expected some of start, read, decide, admin/],
  [["create", "x\u0007", "--scope", "read"], /none of them a control character/],
  [["create", "x", "--scope", "read", "--tenant", "a:b"], /must be 1 to 128 letters/],
  [["create", "x", "--scope", "read", "--expires", "0"], /Expected a time like/],
  [["create", "x", "--scope", "read", "--expires", "soon"], /Expected a time like/],
  [["rotate", "nobody"], /No key has the id "nobody"/],
])("keys %j is refused", async (args, message) => {
  const { code, stdout, stderr } = await runDrover(["keys", ...args], { env });
  expect(stderr).toMatch(message);
  expect(stdout).toBe("");
  expect(code).toBe(1);
});
