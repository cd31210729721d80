import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { StoredKey } from "./ports.ts";

export { scopes } from "./ports-operators.ts";

// What an API key looks like and how it is checked: `drv_<id>_<secret>`. Only a hash of the secret is kept. It is a
// plain SHA-256: a slow hash makes guessing words dear, and a secret of 32 random bytes cannot be guessed at any price.

const keyPattern = /^drv_(?<id>[A-Za-z0-9-]{1,32})_(?<secret>[A-Za-z0-9_-]{43,128})$/;

/** What a key may be called: it stands in logs, on terminals and in what people read of a run. */
export const keyNamePattern: RegExp = /^[^\p{Cc}\p{Bidi_Control}]{1,100}$/u;

/** The parts of a key as its holder has it; undefined if it is none. */
export function parseApiKey(text: string): { id: string; secret: string } | undefined {
  // A long text is no key; matching it would only cost time.
  const groups = text.length > 200 ? undefined : keyPattern.exec(text)?.groups;
  return groups?.id && groups.secret ? { id: groups.id, secret: groups.secret } : undefined;
}

/** SHA-256, hex. */
export function hashSecret(secret: string): string {
  return createHash("sha256").update(secret).digest("hex");
}

/** A new id, twelve letters and digits; ids are no secret. */
export function makeKeyId(): string {
  return randomBytes(24)
    .toString("base64")
    .replaceAll(/[^A-Za-z0-9]/g, "")
    .slice(0, 12);
}

/** 32 random bytes as 43 characters that need no escaping anywhere. */
export function makeSecret(): string {
  return randomBytes(32).toString("base64url");
}

export function toApiKey(id: string, secret: string): string {
  return `drv_${id}_${secret}`;
}

/** Whether two texts of whatever length are the same, in a time that does not tell where they differ. */
export function isSameSecret(a: string, b: string): boolean {
  return timingSafeEqual(createHash("sha256").update(a).digest(), createHash("sha256").update(b).digest());
}

/**
 * Whether a secret is a key's. A key that is not there costs the same two comparisons as one that is.
 *
 * @param now epoch ms.
 * @returns the hash that fits: the key's own, or that of the secret before the last rotation while it is still good.
 */
export function matchSecret(key: StoredKey | undefined, secret: string, now: number): string | undefined {
  const given = hashSecret(secret);
  const current = isSameSecret(key?.secretHash ?? "", given);
  const previous = isSameSecret(key?.previous?.secretHash ?? "", given);
  if (!key || hasExpired(key, now)) return undefined;
  if (current) return given;
  return previous && isGoodHash(key, given, now) ? given : undefined;
}

export function hasExpired(key: StoredKey, now: number): boolean {
  return key.expiresAt !== undefined && key.expiresAt <= now;
}

/** Whether what was opened with the secret of this hash may go on. */
export function isGoodHash(key: StoredKey, secretHash: string, now: number): boolean {
  if (isSameSecret(key.secretHash, secretHash)) return true;
  const { previous } = key;
  return previous !== undefined && previous.validUntil > now && isSameSecret(previous.secretHash, secretHash);
}
