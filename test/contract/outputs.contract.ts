import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { RunStore } from "../../src/ports.ts";
import { newRun } from "./run-fixtures.ts";
import type { StoreUnderTest } from "./run-store.contract.ts";

/** Registers what every `RunStore` promises of text that was cut out of results. */
export function outputsContract(name: string, start: () => Promise<StoreUnderTest>): void {
  describe(`${name}: kept output`, () => {
    let store: RunStore;
    let close: () => Promise<void>;
    beforeEach(async () => {
      ({ store, close } = await start());
    });
    afterEach(() => close());

    test("is read in any range, clamped to what there is", async () => {
      const text = Array.from({ length: 30_000 }, (_, index) => `line ${index}\n`).join("");
      await store.putOutput("run-a", "call-1-1.x", text);
      expect(await store.readOutput("run-a", "call-1-1.x", 0, text.length)).toBe(text);
      for (const [from, to] of [
        [0, 10],
        [65_530, 65_545],
        [131_000, 200_000],
        [-5, 3],
        [text.length - 3, text.length + 99],
        [text.length, text.length + 1],
        [7, 7],
        [9, 2],
      ] as const) {
        expect(await store.readOutput("run-a", "call-1-1.x", from, to)).toBe(
          text.slice(Math.max(0, from), Math.max(0, to)),
        );
      }
    });

    test("survives what no text should hold, and the edges of its pieces", async () => {
      const text = `${"x".repeat(65_535)}🎉 \u0000 \ud800 ${"é".repeat(70_000)}`;
      await store.putOutput("run-a", "r", text);
      expect(await store.readOutput("run-a", "r", 0, text.length)).toBe(text);
      expect(await store.readOutput("run-a", "r", 65_535, 65_537)).toBe("🎉");
    });

    test("is unknown under another name or for another run", async () => {
      await store.putOutput("run-a", "r", "text");
      expect(await store.readOutput("run-a", "other", 0, 9)).toBeUndefined();
      expect(await store.readOutput("run-b", "r", 0, 9)).toBeUndefined();
      await store.putOutput("run-a", "empty", "");
      expect(await store.readOutput("run-a", "empty", 0, 9)).toBe("");
    });

    test("is dropped by the beginning of its name, but for one", async () => {
      const long = "x".repeat(2_000_000);
      for (const ref of ["call-1-1.a", "call-1-1.b", "call-1-10.a"]) await store.putOutput("run-a", ref, long);
      await store.putOutput("run-b", "call-1-1.a", "other run");
      await store.dropOutputs("run-a", "call-1-1.", "call-1-1.b");
      const read = (runId: string, ref: string) => store.readOutput(runId, ref, 0, 3);
      expect(await read("run-a", "call-1-1.a")).toBeUndefined();
      expect(await read("run-a", "call-1-1.b")).toBe("xxx");
      expect(await read("run-a", "call-1-10.a")).toBe("xxx");
      expect(await read("run-b", "call-1-1.a")).toBe("oth");
      await store.dropOutputs("run-a", "");
      expect(await read("run-a", "call-1-1.b")).toBeUndefined();
      await store.dropOutputs("run-none", "");
    });

    test("of an id that was used before is gone when a run takes it", async () => {
      await store.putOutput("run-1", "call-1-1.a", "old");
      await store.create(newRun({ runId: "run-1" }), [], []);
      expect(await store.readOutput("run-1", "call-1-1.a", 0, 3)).toBeUndefined();
    });

    test("takes sixteen megabytes", async () => {
      const text = "0123456789abcdef".repeat(1_048_576);
      await store.putOutput("run-a", "big", text);
      expect(await store.readOutput("run-a", "big", 16_000_000, 16_000_016)).toBe("0123456789abcdef");
    });
  });
}
