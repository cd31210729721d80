// Catches: a stranger's schema that fills the memory of a worker when its references are written out.
import { expect, test } from "vitest";
import { adaptSchema } from "../../src/openai/schema.ts";

const inline = { keywords: new Set(["$ref"]), typeLists: false };

test("references that hold themselves twice are written out up to a bound", () => {
  const levels = Array.from({ length: 40 }, (_, level) => {
    const next = { $ref: `#/$defs/d${level + 1}` };
    return [`d${level}`, { type: "object", properties: { a: next, b: next } }];
  });
  const $defs = Object.fromEntries([...levels, ["d40", { type: "string" }]]);
  const written = JSON.stringify(
    adaptSchema({ type: "object", properties: { x: { $ref: "#/$defs/d0" } }, $defs }, inline),
  );
  expect(written).not.toContain("$ref");
  expect(written.length).toBeLessThan(5_000_000);
});

test("others are written out as before, however often they are used", () => {
  const point = { type: "object", properties: { x: { type: "number" } } };
  const properties = Object.fromEntries(
    Array.from({ length: 500 }, (_, index) => [`p${index}`, { $ref: "#/$defs/point" }]),
  );
  const written = adaptSchema({ type: "object", properties, $defs: { point } }, inline);
  expect(Object.values(written.properties as object)).toEqual(Array.from({ length: 500 }, () => point));
});
