import { hasExpired, hashSecret, isGoodHash, matchSecret, parseApiKey } from "../../api-keys.ts";
import type { KeyStore, StoredKey } from "../../ports-operators.ts";

/** A key that was shown, and the hash of the secret that fitted. */
export type Proof = { key: StoredKey; secretHash: string };

/** The keys there are: those of the settings, which win, and those in Redis. */
export type Keyring = {
  /** The key that this text is, if it is a good one. */
  prove(text: string): Promise<Proof | undefined>;
  /** Whether a proof given earlier still holds. */
  confirm(keyId: string, secretHash: string): Promise<StoredKey | undefined>;
  /** Whether this process has seen a key at all. Once there was one, it stays so: removing the last one opens nothing. */
  hasKeys(): Promise<boolean>;
  /** Whether this text has been a good key before, in this process. */
  isKnownGood(text: string): boolean;
};

type KeyringDeps = { keys: KeyStore; staticKeys: readonly StoredKey[]; now: () => number };

/** A key that was removed or rotated is noticed within this time. */
const cacheMs = 1_000;
const cacheMax = 1_000;

export function createKeyring({ keys, staticKeys, now }: KeyringDeps): Keyring {
  const fixed = new Map(staticKeys.map((key) => [key.id, key]));
  const cached = new Map<string, { key: StoredKey; until: number }>();
  const goodHashes = new Set<string>();
  let anyKey = fixed.size > 0;
  let lookedAt = Number.NEGATIVE_INFINITY;

  /** Only what is there is remembered: ids that are made up must not fill the memory, and a new key works at once. */
  async function find(id: string): Promise<StoredKey | undefined> {
    const known = fixed.get(id);
    if (known) return known;
    const hit = cached.get(id);
    if (hit && hit.until > performance.now()) return hit.key;
    cached.delete(id);
    const key = await keys.get(id);
    if (key) {
      anyKey = true;
      makeRoom(cached, cacheMax);
      cached.set(id, { key, until: performance.now() + cacheMs });
    }
    return key;
  }

  return {
    async prove(text) {
      const parts = parseApiKey(text);
      const key = parts && (await find(parts.id));
      const secretHash = matchSecret(key, parts?.secret ?? "", now());
      if (!key || secretHash === undefined) return undefined;
      makeRoom(goodHashes, cacheMax);
      goodHashes.add(secretHash);
      return { key, secretHash };
    },
    async confirm(keyId, secretHash) {
      const key = await find(keyId);
      return key && !hasExpired(key, now()) && isGoodHash(key, secretHash, now()) ? key : undefined;
    },
    async hasKeys() {
      if (anyKey) return true;
      if (performance.now() - lookedAt < cacheMs) return false;
      anyKey = (await keys.list()).length > 0;
      lookedAt = performance.now();
      return anyKey;
    },
    isKnownGood(text) {
      const parts = parseApiKey(text);
      return parts !== undefined && goodHashes.has(hashSecret(parts.secret));
    },
  };
}

/** Makes room for one more, dropping what came first. */
function makeRoom(items: Map<string, unknown> | Set<string>, max: number): void {
  if (items.size < max) return;
  const [oldest] = items.keys();
  if (oldest !== undefined) items.delete(oldest);
}
