import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { KeyStore, StoredKey, WebSession } from "../../src/ports.ts";

/** `pass` lets a little time pass where it does not by itself. */
export type KeyStoreHarness = { keys: KeyStore; pass(ms: number): void; close(): Promise<void> };

const key = (id: string, fields: Partial<StoredKey> = {}): StoredKey => ({
  id,
  name: "ci",
  scopes: ["start", "read"],
  secretHash: "ab12",
  createdAt: 1_000,
  ...fields,
});
const session: WebSession = { keyId: "k1", secretHash: "ab12", csrf: "c", createdAt: 5 };

/** Registers the suite that every `KeyStore` passes. */
export function keyStoreContract(name: string, start: () => Promise<KeyStoreHarness>): void {
  describe(`${name}: a store of keys`, () => {
    let harness: KeyStoreHarness;
    beforeEach(async () => {
      harness = await start();
    });
    afterEach(() => harness.close());

    test("keeps keys by id until they are removed", async () => {
      const { keys } = harness;
      expect(await keys.get("k1")).toBeUndefined();
      expect(await keys.list()).toEqual([]);
      const previous = { secretHash: "cd34", validUntil: 8_000 };
      const rest: Partial<StoredKey> = { tenant: "t1", expiresAt: 9_000, scopes: ["admin", "decide"], previous };
      const full = key("k1", { createdAt: 2_000, ...rest });
      await keys.put(full);
      await keys.put(key("k2"));
      expect(await keys.get("k1")).toEqual(full);
      expect(await keys.list()).toEqual([key("k2"), full]);
      await keys.put(key("k2", { name: "renamed" }));
      expect(await keys.list()).toEqual([key("k2", { name: "renamed" }), full]);
      expect(await keys.remove("k2")).toBe(true);
      expect(await keys.remove("k2")).toBe(false);
      expect(await keys.list()).toEqual([full]);
    });

    test("a key that was removed or rotated meanwhile is not put in its place", async () => {
      const { keys } = harness;
      const rotated = key("k1", { secretHash: "cd34", previous: { secretHash: "ab12", validUntil: 8_000 } });
      expect(await keys.replace(rotated, "ab12")).toBe(false);
      expect(await keys.get("k1")).toBeUndefined();
      await keys.put(key("k1"));
      expect(await keys.replace(rotated, "ab12")).toBe(true);
      expect(await keys.get("k1")).toEqual(rotated);
      expect(await keys.replace(key("k1", { secretHash: "ef56" }), "ab12")).toBe(false);
      expect(await keys.get("k1")).toEqual(rotated);
    });

    test("does not share objects with its callers", async () => {
      const { keys } = harness;
      const mine = key("k1");
      await keys.put(mine);
      mine.scopes.push("admin");
      (await keys.get("k1"))?.scopes.push("decide");
      expect(await keys.get("k1")).toEqual(key("k1"));
    });

    test("keeps sessions until they end or their time is over", async () => {
      const { keys, pass } = harness;
      expect(await keys.getSession("h1")).toBeUndefined();
      await keys.putSession("h1", session, 60_000);
      await keys.putSession("h2", session, 200);
      expect(await keys.getSession("h1")).toEqual(session);
      expect(await keys.getSession("h2")).toEqual(session);
      await vi.waitFor(async () => {
        pass(50);
        expect(await keys.getSession("h2")).toBeUndefined();
      });
      await keys.removeSession("h1");
      await keys.removeSession("h1");
      expect(await keys.getSession("h1")).toBeUndefined();
    });
  });
}
