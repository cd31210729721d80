import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { hashSecret, makeSecret } from "../../src/api-keys.ts";
import { readConfig } from "../../src/config.ts";
import { toError } from "../../src/core/errors.ts";

const secret = makeSecret();
const hash = hashSecret(secret);

function problemOf(keys: unknown): string {
  try {
    readConfig({ DROVER_API_KEYS: typeof keys === "string" ? keys : JSON.stringify(keys) });
  } catch (error) {
    return toError(error).message;
  }
  return "";
}

test("keys are read with a hash or with their secret, which is not kept", () => {
  const { apiKeys } = readConfig({
    DROVER_API_KEYS: JSON.stringify([
      { id: "ci", name: "CI", scopes: ["start", "read"], tenant: "acme", hash: hash.toUpperCase() },
      { key: `drv_ops_${secret}`, scopes: ["admin"], expiresAt: "2030-01-31T12:00:00Z" },
    ]),
  });
  expect(apiKeys).toEqual([
    { id: "ci", name: "CI", scopes: ["start", "read"], tenant: "acme", secretHash: hash, createdAt: 0 },
    {
      id: "ops",
      name: "ops",
      scopes: ["admin"],
      secretHash: hash,
      createdAt: 0,
      expiresAt: Date.UTC(2030, 0, 31, 12),
    },
  ]);
  expect(JSON.stringify(apiKeys)).not.toContain(secret);
  expect(readConfig({}).apiKeys).toBeUndefined();
});

test("keys may stand in a file", () => {
  const dir = mkdtempSync(join(tmpdir(), "drover-keys-"));
  const file = join(dir, "keys.json");
  writeFileSync(file, `\uFEFF${JSON.stringify([{ id: "ci", scopes: ["read"], hash }])}`);
  expect(readConfig({ DROVER_API_KEYS: file }).apiKeys).toHaveLength(1);
  rmSync(dir, { recursive: true });
  expect(problemOf(file)).toMatch(/received what cannot be read \(ENOENT\)/);
});

test.each([
  [`drv_ops_${secret}`, "received what cannot be read (ENOENT)"],
  [`[{"key":"drv_ops_${secret}"`, "received what cannot be read (SyntaxError)"],
  [{ [secret]: 1 }, "expected a list of keys in JSON"],
  [[secret], "key 1: "],
  [[{ id: "ci", scopes: ["read"], hash, [secret]: 1 }], "key 1: has a field that is none of id, name"],
  [[{ id: secret, scopes: ["read"], hash }], "key 1, id: expected 1 to 32 letters"],
  [[{ id: "ci", scopes: [secret], hash }], "key 1, scopes.0: expected some of start, read, decide, admin"],
  [[{ id: "ci", scopes: [], hash }], "key 1, scopes: expected one or more"],
  [[{ id: "ci", scopes: ["read"], hash: secret }], "key 1, hash: expected the SHA-256 of the secret"],
  [[{ id: "ci", scopes: ["read"] }], 'key 1: expected either "hash" or "key"'],
  [[{ id: "ci", scopes: ["read"], hash, key: `drv_ci_${secret}` }], 'key 1: expected either "hash" or "key"'],
  [[{ scopes: ["read"], hash }], 'key 1: "id": expected one beside "hash"'],
  [[{ scopes: ["read"], key: secret }], 'key 1: "key": expected a whole key'],
  [[{ id: "other", scopes: ["read"], key: `drv_ci_${secret}` }], 'key 1: "id" is another than the one in "key"'],
  [[{ id: "ci", scopes: ["read"], hash, name: "ci\u001b[2J" }], "key 1, name: expected 1 to 100 characters, none of"],
  [[{ id: "ci", scopes: ["read"], hash, name: "ci\u202e" }], "key 1, name: expected 1 to 100 characters, none of"],
  [`[{"id":"ci","scopes":["read"],"hash":"${hash}","scopes":["admin"]}]`, "a field stands twice in one key"],
  [[{ id: "ci", scopes: ["read"], hash, tenant: `${secret}!` }], "key 1, tenant: "],
  [[{ id: "ci", scopes: ["read"], hash, expiresAt: secret }], "key 1, expiresAt: expected a time like"],
  [
    [
      { id: "ci", scopes: ["read"], hash },
      { id: "ci", scopes: ["read"], hash },
    ],
    "key 2: another key before it has the same id",
  ],
])("%j is refused, and no message shows a secret", (keys, expected) => {
  const message = problemOf(keys);
  expect(message).toContain("DROVER_API_KEYS: ");
  expect(message).toContain(expected);
  expect(message).not.toContain(secret);
});
