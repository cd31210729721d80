// Would catch a promise that no test proves, a citation of a promise that does not exist, and a renamed test file.
import { describe, expect, test } from "vitest";
import { readSources } from "./architecture/source.ts";
import { guarantees } from "./guarantees.ts";

/** Promises that no test proves yet. It only ever gets shorter. */
const unproven = ["G1", "G2", "G3", "G4", "G5", "G6", "G7", "G8", "G9", "D1", "D3", "D5", "D7", "D16"];

// A title that begins with ids: [G3] or [G1][G8], say.
const title = /["'`](?<ids>(?:\[[GD]\d+\]\s*)+)/g;
const tests = readSources("test").filter(({ path }) => /\.(test|contract)\.ts$/.test(path));
const cited = tests.flatMap(({ path, text }) =>
  [...text.matchAll(title)].flatMap(({ groups }) =>
    [...(groups?.ids ?? "").matchAll(/[GD]\d+/g)].map(([id]) => ({ path, id })),
  ),
);

describe("guarantees", () => {
  test("ids are unique", () => {
    const ids = guarantees.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test("every promise is proven by the tests it names", () => {
    const problems = guarantees.flatMap(({ id, proof }) =>
      proof
        .filter((file) => !cited.some((citing) => citing.id === id && citing.path === file))
        .map((file) => `${id}: no test title in ${file} begins with [${id}]`),
    );
    expect(problems).toEqual([]);
  });

  test("every citation is a promise that names the file", () => {
    const problems = cited
      .filter(({ id, path }) => !guarantees.find((guarantee) => guarantee.id === id)?.proof.includes(path))
      .map(({ id, path }) => `${path} cites [${id}]: add it to the proof of ${id} in test/guarantees.ts`);
    expect(problems).toEqual([]);
  });

  test("only what is listed as such is without proof", () => {
    expect(guarantees.filter(({ proof }) => proof.length === 0).map(({ id }) => id)).toEqual(unproven);
  });
});
