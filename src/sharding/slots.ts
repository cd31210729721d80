// Which shard something belongs to, and which names put a shard's keys where. Pure and for good: a record is found by it.

/** Hash slots of a Redis Cluster. */
const slots = 16_384;
/** The highest number of shards: each costs every worker a few connections. */
export const mostShards = 256;

/** CRC-16/XMODEM of the UTF-8 bytes: what a Redis Cluster itself places keys by. */
export function crc16(text: string): number {
  let crc = 0;
  for (const byte of new TextEncoder().encode(text)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1) crc = ((crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
  }
  return crc;
}

/**
 * The shard, from 0, of a run or a session by its id: FNV-1a (32 bits) of its UTF-8 bytes, mixed by the last steps of
 * MurmurHash3. The same for every process and version. The checksum above would not do: of ids that are counted up it
 * gives some shards twice as many as others.
 */
export function shardOf(id: string, shards: number): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(id)) hash = Math.imul(hash ^ byte, 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) % shards;
}

/**
 * The prefixes of an installation's shards, in order; the prefix itself if there is but one. A shard's tag is the prefix's
 * with `:<number>`, or `:<number>-<n>` with the first n that puts it into its share of the slots: `{drover:0}` to
 * `{drover:5}` left as they are could all fall to one master, while a cluster's masters have equal ranges by default.
 *
 * @throws RangeError for a prefix without a hash tag that is to have several shards.
 */
export function shardPrefixes(prefix: string, shards: number): string[] {
  if (shards === 1) return [prefix];
  return Array.from({ length: shards }, (_, shard) => {
    for (let n = 0; ; n += 1) {
      const { tag, tagged } = withTag(prefix, n === 0 ? `:${shard}` : `:${shard}-${n}`);
      if (Math.floor(((crc16(tag) % slots) * shards) / slots) === shard) return tagged;
    }
  });
}

function withTag(prefix: string, suffix: string): { tag: string; tagged: string } {
  const [whole, before = "", inside = "", after = ""] = /^([^{]*)\{([^}]+)\}(.*)$/s.exec(prefix) ?? [];
  if (whole === undefined) throw new RangeError(`a prefix with shards needs a hash tag: {${prefix}}`);
  const tag = `${inside}${suffix}`;
  return { tag, tagged: `${before}{${tag}}${after}` };
}
