// Would catch a promise that no test proves, and a citation of a promise that does not exist.
import { describe, expect, test } from "vitest";
import { findProofs, guarantees } from "./guarantees.ts";

const ids = guarantees.map(({ id }) => id);
const proofs = findProofs();

describe("guarantees", () => {
  test("ids are unique", () => {
    expect(new Set(ids).size).toBe(ids.length);
  });

  test("every promise is proven by a test that cites it", () => {
    const cited = new Set(proofs.map(({ id }) => id));
    expect(ids.filter((id) => !cited.has(id))).toEqual([]);
  });

  test("every citation is of a promise, and says what is proven", () => {
    expect(proofs.filter(({ id, title }) => !ids.includes(id) || title === "")).toEqual([]);
  });
});
