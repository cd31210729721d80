// Would catch a known way of failing that no chaos test tries, and a citation of a case that there is not.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { chaosCases } from "./chaos/support/cases.ts";

const ids = chaosCases.map(({ id }) => id);
const folder = join(import.meta.dirname, "chaos");
const cited = new Set(
  globSync("**/*.chaos.test.ts", { cwd: folder }).flatMap((file) =>
    [...readFileSync(join(folder, file), "utf8").matchAll(/\[(Q\d\d)\]/g)].map(([, id = ""]) => id),
  ),
);
describe("the 34 known ways in which queues fail", () => {
  test("each has an id, a title and an outcome of its own", () => {
    expect(ids.length).toBe(34);
    for (const field of ["id", "title", "outcome"] as const) {
      expect(new Set(chaosCases.map((one) => one[field])).size).toBe(34);
    }
  });

  test("no test cites a case that there is not", () => {
    expect([...cited].filter((id) => !ids.includes(id))).toEqual([]);
  });

  test("each is tried", () => {
    expect(ids.filter((id) => !cited.has(id))).toEqual([]);
  });
});
