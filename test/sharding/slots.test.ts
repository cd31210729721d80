import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { crc16, shardOf, shardPrefixes } from "../../src/sharding/slots.ts";

describe("the shard of an id", () => {
  test("is pinned: where a run is once it has been written is where it is looked for", () => {
    const ids = ["order-42", "chat-1", "r", "01JD3ZQ9X2-a"];
    expect(ids.map((id) => shardOf(id, 6))).toMatchInlineSnapshot(`
      [
        5,
        5,
        0,
        0,
      ]
    `);
  });

  test.each([2, 3, 6, 16, 64])(
    "is one of those there are, and none of %i has much more than its part of ids that are counted up",
    (shards) => {
      const counts = Array.from({ length: shards }, () => 0);
      for (let index = 0; index < 2_000 * shards; index += 1) {
        const shard = shardOf(`order-${index}`, shards);
        counts[shard] = (counts[shard] ?? 0) + 1;
      }
      for (const count of counts) expect(Math.abs(count - 2_000)).toBeLessThan(200);
    },
  );

  test("is one of those there are, whatever the id", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.integer({ min: 1, max: 256 }), (id, shards) => {
        expect(shardOf(id, shards)).toBeGreaterThanOrEqual(0);
        expect(shardOf(id, shards)).toBeLessThan(shards);
      }),
    );
  });
});

describe("the prefixes of shards", () => {
  test("are chosen by the checksum that Redis Cluster itself uses", () => {
    expect(crc16("123456789")).toBe(0x31c3);
    expect(crc16("")).toBe(0);
    // Two bytes, not one character.
    expect(crc16("é")).not.toBe(crc16("e"));
  });

  test("of one shard is the prefix as it is, with a tag or without", () => {
    expect(shardPrefixes("{drover}", 1)).toEqual(["{drover}"]);
    expect(shardPrefixes("drover", 1)).toEqual(["drover"]);
  });

  test("are pinned, and keep what is around the tag", () => {
    expect(shardPrefixes("{drover}", 4)).toMatchInlineSnapshot(`
      [
        "{drover:0-3}",
        "{drover:1-1}",
        "{drover:2-3}",
        "{drover:3-1}",
      ]
    `);
    expect(shardPrefixes("a{b}c", 2)).toMatchInlineSnapshot(`
      [
        "a{b:0-1}c",
        "a{b:1}c",
      ]
    `);
    expect(() => shardPrefixes("drover", 2)).toThrow(RangeError);
  });

  test("differ, and each falls into its share of the slots, so that equal masters have equally many", () => {
    const prefix = fc.stringMatching(/^[A-Za-z0-9._-]{1,20}$/);
    fc.assert(
      fc.property(prefix, fc.integer({ min: 2, max: 64 }), (name, shards) => {
        const prefixes = shardPrefixes(`{${name}}`, shards);
        expect(new Set(prefixes).size).toBe(shards);
        const slots = prefixes.map((own) => crc16(own.slice(1, -1)) % 16_384);
        expect(slots.map((slot) => Math.floor((slot * shards) / 16_384))).toEqual(slots.map((_, shard) => shard));
      }),
      { numRuns: 50 },
    );
  });
});
