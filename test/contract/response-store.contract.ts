import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { ResponseRecord, ResponseStore } from "../../src/ports.ts";

/** `pass` lets a little time pass where it does not by itself. */
export type ResponseStoreHarness = { responses: ResponseStore; pass(ms: number): void; close(): Promise<void> };

const record = (id: string, fields: Partial<ResponseRecord> = {}): ResponseRecord => ({
  id,
  runId: "run-a",
  createdAt: 1_000,
  afterSeq: 0,
  request: { model: "a", metadata: { k: "v" } },
  ...fields,
});
const texts = (from: number, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `{"sequence_number":${from + index}}`);

/** Registers the suite that every `ResponseStore` passes. */
export function responseStoreContract(name: string, start: () => Promise<ResponseStoreHarness>): void {
  describe(`${name}: a store of responses`, () => {
    let responses: ResponseStore;
    let harness: ResponseStoreHarness;
    beforeEach(async () => {
      harness = await start();
      ({ responses } = harness);
    });
    afterEach(() => harness.close());

    test("keeps the first record of an id", async () => {
      expect(await responses.get("resp_1")).toBeUndefined();
      const first = record("resp_1", { tenant: "t1", afterSeq: 7 });
      expect(await responses.create(first)).toEqual(first);
      expect(await responses.create(record("resp_1", { runId: "run-b" }))).toEqual(first);
      expect(await responses.get("resp_1")).toEqual(first);
      expect(await responses.create(record("resp_2"))).toEqual(record("resp_2"));
    });

    test("numbers events from 0 and gives back any range of them", async () => {
      await responses.create(record("resp_1"));
      expect(await responses.read("resp_1", 0, 10)).toEqual([]);
      expect(await responses.append("resp_1", 0, texts(0, 1))).toBe(true);
      expect(await responses.append("resp_1", 1, texts(1, 4))).toBe(true);
      expect(await responses.read("resp_1", 0, 10)).toEqual(texts(0, 5));
      expect(await responses.read("resp_1", 3, 10)).toEqual(texts(3, 2));
      expect(await responses.read("resp_1", 1, 2)).toEqual(texts(1, 2));
      expect(await responses.read("resp_1", 5, 2)).toEqual([]);
      expect(await responses.read("resp_1", 0, 0)).toEqual([]);
      expect(await responses.append("resp_1", 5, [])).toBe(true);
      expect(await responses.read("resp_2", 0, 10)).toEqual([]);
    });

    test("appends where the events end and nowhere else", async () => {
      await responses.create(record("resp_1"));
      expect(await responses.append("resp_1", 1, texts(1, 1))).toBe(false);
      expect(await responses.append("resp_1", 0, texts(0, 3))).toBe(true);
      expect(await responses.append("resp_1", 0, ["other"])).toBe(false);
      expect(await responses.append("resp_1", 2, ["other", "another"])).toBe(false);
      expect(await responses.append("resp_1", 4, ["other"])).toBe(false);
      expect(await responses.read("resp_1", 0, 10)).toEqual(texts(0, 3));
    });

    test("of many writers of the same number one goes on, with all of its batch", async () => {
      await responses.create(record("resp_1"));
      for (let round = 0; round < 5; round += 1) {
        const from = round * 3;
        const batches = Array.from({ length: 8 }, (_, writer) =>
          [0, 1, 2].map((event) => `${round} ${writer} ${event}`),
        );
        const results = await Promise.all(batches.map((batch) => responses.append("resp_1", from, batch)));
        expect(results.filter(Boolean)).toHaveLength(1);
        expect(await responses.read("resp_1", from, 10)).toEqual(batches[results.indexOf(true)]);
      }
    });

    test("takes a thousand events at once, whatever is in them", async () => {
      await responses.create(record("resp_1"));
      const events = Array.from({ length: 1_000 }, (_, index) => `${index} héllo \u0000 \u2028 😀 \n"'`);
      expect(await responses.append("resp_1", 0, events)).toBe(true);
      expect(await responses.read("resp_1", 0, 5_000)).toEqual(events);
    });

    test("a removed response is gone with its events, and takes none", async () => {
      await responses.create(record("resp_1"));
      await responses.append("resp_1", 0, texts(0, 2));
      expect(await responses.remove("resp_1")).toBe(true);
      expect(await responses.remove("resp_1")).toBe(false);
      expect(await responses.get("resp_1")).toBeUndefined();
      expect(await responses.read("resp_1", 0, 10)).toEqual([]);
      for (const from of [0, 2]) {
        await expect(responses.append("resp_1", from, texts(from, 1))).rejects.toMatchObject({ code: "not_found" });
      }
      expect(await responses.read("resp_1", 0, 10)).toEqual([]);
    });

    test("tells which are to be looked at, the oldest first, until they are removed or put off", async () => {
      for (const [index, createdAt] of [3_000, 1_000, 2_000].entries()) {
        await responses.create(record(`resp_${index}`, { createdAt, runId: `run-${index}` }));
      }
      const dueBefore = async (before: number, limit = 10): Promise<string[]> =>
        (await responses.due(before, limit)).map(({ id, runId }) => `${id} ${runId}`);
      expect(await dueBefore(1_000)).toEqual([]);
      expect(await dueBefore(3_000)).toEqual(["resp_1 run-1", "resp_2 run-2"]);
      expect(await dueBefore(9_000, 2)).toEqual(["resp_1 run-1", "resp_2 run-2"]);
      await responses.postpone("resp_1", 5_000);
      await responses.create(record("resp_1", { createdAt: 1 }));
      await responses.postpone("nobody", 1);
      await responses.remove("resp_2");
      expect(await dueBefore(5_000)).toEqual(["resp_0 run-0"]);
      expect(await dueBefore(9_000)).toEqual(["resp_0 run-0", "resp_1 run-1"]);
    });

    test("events expire, the record stays, and their numbers are not given again", async () => {
      await responses.create(record("resp_1"));
      await responses.append("resp_1", 0, texts(0, 2));
      await responses.expireEvents("resp_1", 60_000);
      expect(await responses.append("resp_1", 2, texts(2, 1))).toBe(true);
      await responses.expireEvents("resp_1", 200);
      expect(await responses.read("resp_1", 0, 10)).toEqual(texts(0, 3));
      await vi.waitFor(async () => {
        harness.pass(50);
        expect(await responses.read("resp_1", 0, 10)).toEqual([]);
      });
      expect(await responses.get("resp_1")).toEqual(record("resp_1"));
      expect(await responses.append("resp_1", 0, texts(0, 1))).toBe(false);
      expect(await responses.append("resp_1", 3, texts(3, 1))).toBe(false);
      expect(await responses.read("resp_1", 0, 10)).toEqual([]);
    });
  });
}
