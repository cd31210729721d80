import { describe, expect, test } from "vitest";
import { hashSecret, makeKeyId, makeSecret, matchSecret, parseApiKey, toApiKey } from "../src/api-keys.ts";
import type { StoredKey } from "../src/ports.ts";

describe("what a key looks like", () => {
  test("id and secret come back out, whatever was drawn", () => {
    for (let round = 0; round < 500; round += 1) {
      const [id, secret] = [makeKeyId(), makeSecret()];
      expect(parseApiKey(toApiKey(id, secret))).toEqual({ id, secret });
      expect(id).toMatch(/^[A-Za-z0-9]{12}$/);
    }
  });

  test.each([
    "",
    "drv_",
    "drv_a_b",
    `drv_a_${"x".repeat(42)}`,
    `drv_a:b_${"x".repeat(43)}`,
    `drv_a_${"x".repeat(500)}`,
  ])("%j is none", (text) => expect(parseApiKey(text)).toBeUndefined());

  test("only the hash is kept; the old secret of a rotated key is good for its time", () => {
    const secret = makeSecret();
    const old = makeSecret();
    const key: StoredKey = { id: "a", name: "a", scopes: ["read"], secretHash: hashSecret(secret), createdAt: 1 };
    const rotated = { ...key, previous: { secretHash: hashSecret(old), validUntil: 100 } };
    expect(matchSecret(key, secret, 50)).toBe(hashSecret(secret));
    expect(matchSecret(key, old, 50)).toBeUndefined();
    expect(matchSecret(rotated, old, 50)).toBe(hashSecret(old));
    expect(matchSecret(rotated, old, 100)).toBeUndefined();
    expect(matchSecret({ ...rotated, expiresAt: 40 }, secret, 50)).toBeUndefined();
    expect(matchSecret(undefined, "", 50)).toBeUndefined();
  });
});
