import { randomBytes } from "node:crypto";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import { hashSecret } from "../../api-keys.ts";
import type { KeyStore } from "../../ports-operators.ts";
import type { HttpContext } from "../types.ts";
import type { Keyring, Proof } from "./keyring.ts";

/** Who signed in to the pages, and the token that their forms must bring. */
export type SignedIn = Proof & { csrf: string };

/** Sessions of the pages: a random value in a cookie, and its hash in Redis. */
export type WebSessions = {
  /** Always a new one; what the browser had before ends. */
  open(context: HttpContext, proof: Proof): Promise<void>;
  read(context: HttpContext): Promise<SignedIn | undefined>;
  close(context: HttpContext): Promise<void>;
};

type SessionDeps = { keys: KeyStore; keyring: Keyring; secure: boolean; now: () => number };

const ttlMs = 12 * 3_600_000;
const cookiePattern = /^[A-Za-z0-9_-]{43}$/;
const randomToken = (): string => randomBytes(32).toString("base64url");

export function createWebSessions({ keys, keyring, secure, now }: SessionDeps): WebSessions {
  const name = "drover";
  // With this prefix browsers take it over HTTPS alone, for this host alone.
  const prefix = secure ? { prefix: "host" as const } : {};

  function idHashOf(context: HttpContext): string | undefined {
    const value = secure ? getCookie(context, name, "host") : getCookie(context, name);
    return value !== undefined && cookiePattern.test(value) ? hashSecret(value) : undefined;
  }

  return {
    async open(context, { key, secretHash }) {
      const earlier = idHashOf(context);
      if (earlier !== undefined) await keys.removeSession(earlier);
      const id = randomToken();
      const session = { keyId: key.id, secretHash, csrf: randomToken(), createdAt: now() };
      await keys.putSession(hashSecret(id), session, ttlMs);
      const maxAge = ttlMs / 1000;
      setCookie(context, name, id, { httpOnly: true, sameSite: "Lax", secure, maxAge, path: "/", ...prefix });
    },
    async read(context) {
      const idHash = idHashOf(context);
      const session = idHash === undefined ? undefined : await keys.getSession(idHash);
      if (!session) return undefined;
      const { keyId, secretHash, csrf } = session;
      const key = await keyring.confirm(keyId, secretHash);
      return key && { key, secretHash, csrf };
    },
    async close(context) {
      const idHash = idHashOf(context);
      if (idHash !== undefined) await keys.removeSession(idHash);
      deleteCookie(context, name, { path: "/", secure, ...prefix });
    },
  };
}
