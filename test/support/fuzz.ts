import fc from "fast-check";

/** How many cases a fuzz runs: DROVER_FUZZ_RUNS, else few enough for the gate. */
export const fuzzRuns = Number(process.env.DROVER_FUZZ_RUNS ?? 2_000);
/** For 100,000 cases on a slow machine. */
export const fuzzTimeoutMs = 900_000;

/** Small arguments whose keys and texts need no escape, so that they can be found again in what was sent. */
export const plainArguments: fc.Arbitrary<Record<string, unknown>> = fc.dictionary(
  fc.constantFrom("a", "b", "city", "note"),
  fc.oneof(
    fc.constantFrom("Oslo", "it is", "Zürich 😀", "{x}", "</tool_call>", "[1]", "`y`", ""),
    fc.integer({ min: -1_000, max: 1_000 }),
    fc.boolean(),
    fc.constant(null),
    fc.array(fc.constantFrom("p", "q", 7), { maxLength: 3 }),
    fc.record({ in: fc.constantFrom("deep", "}") }),
  ),
  { maxKeys: 3 },
);

/** A few edits of a text: cut, doubled, dropped or with something put in. */
export function mutated(texts: fc.Arbitrary<string>, inserts: readonly string[]): fc.Arbitrary<string> {
  const edit = fc.record({
    kind: fc.constantFrom("insert", "drop", "double", "cut"),
    at: fc.nat(10_000),
    length: fc.integer({ min: 1, max: 12 }),
    piece: fc.constantFrom(...inserts),
  });
  return fc.tuple(texts, fc.array(edit, { maxLength: 4 })).map(([text, edits]) =>
    edits.reduce((result, { kind, at, length, piece }) => {
      const start = at % (result.length + 1);
      const [before, inner, after] = [
        result.slice(0, start),
        result.slice(start, start + length),
        result.slice(start + length),
      ];
      if (kind === "insert") return before + piece + inner + after;
      if (kind === "drop") return before + after;
      return kind === "double" ? before + inner + inner + after : before;
    }, text),
  );
}

/** Every key and every value that is no container, as text. */
export function leavesOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(leavesOf);
  if (typeof value !== "object" || value === null) return [String(value)];
  return Object.entries(value).flatMap(([key, inner]) => [key, ...leavesOf(inner)]);
}
