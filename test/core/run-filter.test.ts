import { describe, expect, test } from "vitest";
import { makeRun } from "../../src/core/new-run.ts";
import {
  fitsFilter,
  isPlace,
  newestPlace,
  parseCountFilter,
  parseRunFilter,
  placeOf,
  type RunFilter,
} from "../../src/core/run-filter.ts";

const trace = { traceId: "t", rootSpanId: "s", flags: 1 };
const run = {
  ...makeRun({ runId: "run-a", agent: "a", messages: [], inputHash: "h", trace, at: 1_000, token: "t" }),
  session: "s",
  tenant: "t1",
  metadata: { customer: "c1", number: 1 },
};

describe("a filter of runs", () => {
  test("has at most a thousand runs to a page, and fifty if it does not say", () => {
    expect(parseRunFilter({})).toEqual({ limit: 50 });
    expect(parseRunFilter({ limit: 7 })).toEqual({ limit: 7 });
    expect(parseRunFilter({ limit: 5_000 })).toEqual({ limit: 1_000 });
  });

  test("that does not fit names every field that is wrong", () => {
    const wrong = { status: "done", tenant: "", creator: "x" } as unknown as RunFilter;
    expect(() => parseRunFilter(wrong)).toThrow(/This filter of runs cannot be used: .*status.*tenant.*creator/s);
    const metadata = Object.fromEntries(Array.from({ length: 21 }, (_, index) => [`f${index}`, "x"]));
    expect(() => parseRunFilter({ metadata })).toThrow(/metadata: at most 20 fields/);
    expect(() => parseRunFilter("all" as unknown as RunFilter)).toThrow(/filter: /);
    expect(() => parseCountFilter({ status: "queued" } as unknown as RunFilter)).toThrow(/status/);
    expect(parseCountFilter({ agent: "a", tenant: "t1" })).toEqual({ agent: "a", tenant: "t1" });
  });

  test("of a field that records leave out is refused, and not as good as none", () => {
    const metadata = JSON.parse('{"__proto__":"x"}') as Record<string, string>;
    expect(() => parseRunFilter({ metadata })).toThrow("metadata: no run has a field __proto__");
    expect(parseRunFilter({ metadata: { constructor: "x" } })).toMatchObject({ metadata: { constructor: "x" } });
    expect(() => parseRunFilter({ metadata: "x" as never })).toThrow("metadata: ");
  });

  test("fits a run in all that it says", () => {
    const fitting: RunFilter[] = [
      {},
      { status: "queued", agent: "a", session: "s", tenant: "t1" },
      { createdAfter: 1_000, createdBefore: 1_001 },
      { search: "un-" },
      { metadata: { customer: "c1" } },
    ];
    const others: RunFilter[] = [
      { status: "running" },
      { agent: "b" },
      { session: "s2" },
      { tenant: "t2" },
      { createdAfter: 1_001 },
      { createdBefore: 1_000 },
      { search: "b" },
      { metadata: { customer: "c2" } },
      { metadata: { number: "1" } },
      { metadata: { toString: "x" } },
    ];
    expect(fitting.filter((filter) => !fitsFilter(run, filter))).toEqual([]);
    expect(others.filter((filter) => fitsFilter(run, filter))).toEqual([]);
    const { tenant: _, ...nobodys } = run;
    expect(fitsFilter(nobodys, { tenant: "t1" })).toBe(false);
  });
});

test("a place is told from what else may lie among places", () => {
  expect(isPlace(placeOf({ runId: "run-a", createdAt: 1_000.5 }))).toBe(true);
  expect(isPlace(newestPlace)).toBe(true);
  for (const other of ["", "x", "5", "000000000001000", "000000000001000:", "000000000001000:a b", "1000:run-a"]) {
    expect(isPlace(other)).toBe(false);
  }
});
