import { z } from "zod";
import { type KeyStore, type StoredKey, scopes, type WebSession } from "../ports-operators.ts";
import type { RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { runScript } from "./read.ts";
import { parseStored } from "./run-codec.ts";

// Loose: what a newer version put in is still there when this one writes the key again.
const keySchema: z.ZodType<StoredKey> = z.looseObject({
  id: z.string(),
  name: z.string(),
  scopes: z.array(z.enum(scopes)),
  tenant: z.string().optional(),
  secretHash: z.string(),
  previous: z.looseObject({ secretHash: z.string(), validUntil: z.number() }).optional(),
  createdAt: z.number(),
  expiresAt: z.number().optional(),
});
const sessionSchema: z.ZodType<WebSession> = z.object({
  keyId: z.string(),
  secretHash: z.string(),
  csrf: z.string(),
  createdAt: z.number(),
});

/**
 * A key that was removed meanwhile does not come back. KEYS: 1 keys. ARGV: 1 id, 2 hash of the secret that it must have,
 * 3 JSON of what it becomes. Returns {1} if it did.
 */
const replaceScript = `
local stored = redis.call('HGET', KEYS[1], ARGV[1])
if not stored then return {0} end
local known, key = pcall(cjson.decode, stored)
if not known or type(key) ~= 'table' or key.secretHash ~= ARGV[2] then return {0} end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return {1}
`;

/** Keys and sessions for HTTP, in Redis. Contract: `KeyStore`. */
export function createRedisKeyStore({ connection, keys }: { connection: RedisConnection; keys: Keys }): KeyStore {
  const { accessKeys } = keys;
  const decode = (id: string, json: string): StoredKey =>
    parseStored(keySchema, json, `access key ${id} (key ${accessKeys})`);

  return {
    async put(key) {
      await connection.use((client) => client.hset(accessKeys, key.id, JSON.stringify(key)));
    },
    async replace(key, secretHash) {
      const input = { keys: [accessKeys], args: [key.id, secretHash, JSON.stringify(key)] };
      const [code] = await connection.use((client) => runScript(client, replaceScript, input));
      return code === 1;
    },
    async get(id) {
      const json = await connection.use((client) => client.hget(accessKeys, id));
      return json === null ? undefined : decode(id, json);
    },
    async list() {
      const stored = await connection.use((client) => client.hgetall(accessKeys));
      const all = Object.entries(stored).map(([id, json]) => decode(id, json));
      return all.sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
    },
    async remove(id) {
      return (await connection.use((client) => client.hdel(accessKeys, id))) > 0;
    },
    async putSession(idHash, session, ttlMs) {
      await connection.use((client) => client.set(keys.webSession(idHash), JSON.stringify(session), "PX", ttlMs));
    },
    async getSession(idHash) {
      const key = keys.webSession(idHash);
      const json = await connection.use((client) => client.get(key));
      return json === null ? undefined : parseStored(sessionSchema, json, `a session of the pages (key ${key})`);
    },
    async removeSession(idHash) {
      await connection.use((client) => client.unlink(keys.webSession(idHash)));
    },
  };
}
