import type { Message } from "../core/message.ts";
import type { Run } from "../core/run.ts";
import type { RedisClient, RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { redisErrorCode } from "./redis-error.ts";
import { decodeEntry, decodeHead } from "./run-codec.ts";

/** No single command reads more entries than this, except the load of a transcript that is not in the cache. */
export const maxPage = 1_000;

/** A transcript entry: the token of its commit, the message, and what it takes in memory, about. */
export type Entry = { token: string; message: Message; bytes: number };

/** The head alone. */
export async function readHead(connection: RedisConnection, keys: Keys, runId: string): Promise<Run | null> {
  const fields = await connection.use((client) => client.hgetall(keys.run(runId).head));
  return decodeHead(runId, fields);
}

// A transaction of the client library costs it much more: it copies all scripts of the connection into each.
const headWithEntriesScript =
  "return {redis.call('HGETALL', KEYS[1]), redis.call('LRANGE', KEYS[2], ARGV[1], ARGV[2])}";

/** The head and a range of the transcript as of the same moment, in one round trip. */
export async function readHeadWithEntries(
  connection: RedisConnection,
  keys: Keys,
  runId: string,
  range: [from: number, to: number],
): Promise<{ run: Run | null; entries: Entry[] }> {
  const { head, messages } = keys.run(runId);
  const input = { keys: [head, messages], args: range };
  const reply = await connection.use((client) => runScript(client, headWithEntriesScript, input));
  const [pairs, rows] = reply as unknown as [string[], string[]];
  const run = decodeHead(runId, toFields(pairs));
  if (!run) return { run, entries: [] };
  return { run, entries: toEntries(rows, runId) };
}

/** A range of a transcript, named as by `transcriptOf`. */
export async function readEntries(
  connection: RedisConnection,
  keys: Keys,
  transcript: string,
  range: [from: number, to: number],
): Promise<Entry[]> {
  const rows = await connection.use((client) => client.lrange(keys.transcript(transcript), ...range));
  return toEntries(rows, transcript);
}

function toEntries(rows: string[], transcript: string): Entry[] {
  // A character is held in two bytes, once as text inside the message, and a little more.
  return rows.map((row) => ({ ...decodeEntry(row, `transcript of ${transcript}`), bytes: 200 + 2 * row.length }));
}

/**
 * Asks many keys, in one round trip. One that holds a value of another type answers with its error; any other failure is
 * thrown: it says nothing of the key.
 */
export function askEach<T>(
  connection: RedisConnection,
  keys: readonly string[],
  ask: (client: RedisClient, key: string) => Promise<T>,
): Promise<(T | Error)[]> {
  return connection.use((client) => Promise.all(keys.map((key) => ask(client, key).catch(unlessOfKey))));
}

function unlessOfKey(error: unknown): Error {
  if (error instanceof Error && redisErrorCode(error) === "WRONGTYPE") return error;
  throw error;
}

/** Pairs of a hash as Redis lists them, as an object. */
export function toFields(pairs: (string | number)[]): Record<string, string> {
  const fields: Record<string, string> = {};
  for (let index = 0; index + 1 < pairs.length; index += 2) fields[String(pairs[index])] = String(pairs[index + 1]);
  return fields;
}

/** A score of a sorted set, for us a time, as Redis tells it. One without an end was put there by another program. */
export function scoreOf(text: string): number {
  if (text === "inf") return Number.MAX_SAFE_INTEGER;
  return text === "-inf" ? 0 : Number(text);
}

const scriptNames = new Map<string, string>();

type Arguments = (string | number)[];
type Scripted = RedisClient & Record<string, (keys: number, ...args: [Arguments, Arguments]) => Promise<Arguments>>;

/**
 * Runs a script by its hash, and sends its text when Redis does not know it (first use, SCRIPT FLUSH, a failover):
 * the client library sees to that.
 */
export function runScript(
  client: RedisClient,
  lua: string,
  input: { keys: string[]; args: (string | number)[] },
): Promise<(string | number)[]> {
  let name = scriptNames.get(lua);
  if (!name) {
    name = `droverScript${scriptNames.size}`;
    scriptNames.set(lua, name);
  }
  if (!(name in client)) client.defineCommand(name, { lua });
  const run = (client as unknown as Scripted)[name] as Scripted[string];
  // Nested: the client library flattens what it is given, and would copy long lists some more times on the way.
  return run.call(client, input.keys.length, input.keys, input.args);
}
