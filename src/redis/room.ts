import { refusalForSize, type StoreSize } from "../core/room.ts";
import type { Room } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import { runScript } from "./read.ts";
import { unlessRefused } from "./server-facts.ts";

/** How long a reading holds; one that found no limit holds longer, and nobody waits for the next. */
const keptMs = 1_000;
const keptWithoutLimitMs = 10_000;
/** What a new run takes beside its input, in keys, indexes and its first job. */
const bytesPerRun = 3_072;

/**
 * Asked as a script, since a cluster's client would send INFO to any of its nodes: the key leads to the one that counts.
 * KEYS: 1 any key of ours. Returns {bytes used, bytes that may be used}.
 */
const sizeScript = `
local info = redis.call('INFO', 'memory')
return {string.match(info, 'used_memory:(%d+)') or '0', string.match(info, 'maxmemory:(%d+)') or '0'}
`;

export type RedisRoomOptions = {
  connection: RedisConnection;
  /** A key on each server that runs are kept on. */
  places: readonly string[];
  /** Share of maxmemory from which on there is no room. */
  limitPercent: number;
};

/** Room on Redis, read when a run is to be started and at most once a second. Contract: `Room`. */
export function createRedisRoom({ connection, places, limitPercent }: RedisRoomOptions): Room {
  let known: { at: number; size: StoreSize } | undefined;
  /** What this process has started since then. */
  let added = 0;
  let reading: Promise<void> | undefined;

  async function read(): Promise<void> {
    const at = performance.now();
    const before = added;
    const sizes = await Promise.all(places.map((place) => readSize(connection, place)));
    added -= before;
    known = { at, size: fullest(sizes) };
  }

  /** Many who ask at once ask once. */
  function refresh(): Promise<void> {
    reading ??= read().finally(() => {
      reading = undefined;
    });
    return reading;
  }

  async function fresh(): Promise<StoreSize> {
    if (!known) await refresh();
    else {
      const age = performance.now() - known.at;
      if (known.size.maxBytes > 0 && age >= keptMs) await refresh();
      if (known.size.maxBytes === 0 && age >= keptWithoutLimitMs) refresh().catch(() => {});
    }
    return known?.size ?? { usedBytes: 0, maxBytes: 0 };
  }

  return {
    async refusal(bytes) {
      const { usedBytes, maxBytes } = await fresh();
      const refusal = refusalForSize({ usedBytes: usedBytes + added, maxBytes }, limitPercent, connection.address);
      if (refusal === undefined) added += bytes + bytesPerRun;
      return refusal;
    },
  };
}

/** A host that does not tell has no limit that is known. */
async function readSize(connection: RedisConnection, place: string): Promise<StoreSize> {
  const found = await connection.use((client) =>
    unlessRefused(() => runScript(client, sizeScript, { keys: [place], args: [] })),
  );
  return { usedBytes: Number(found?.[0] ?? 0), maxBytes: Number(found?.[1] ?? 0) };
}

function fullest(sizes: StoreSize[]): StoreSize {
  const share = ({ usedBytes, maxBytes }: StoreSize): number => (maxBytes > 0 ? usedBytes / maxBytes : 0);
  return sizes.reduce((most, size) => (share(size) > share(most) ? size : most), { usedBytes: 0, maxBytes: 0 });
}
