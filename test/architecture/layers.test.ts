// Checks the source text against the table in imports.ts. It would catch an import that points outward, a cycle, an
// impure core, and a rule that somebody switched off in a comment or in the lint file.
import { posix } from "node:path";
import { describe, expect, test } from "vitest";
import { type Layer, layerOf, layers, mayImportPackage } from "./imports.ts";
import { type Import, importsOf, readSources, type SourceFile, stripNoise } from "./source.ts";

const sources = readSources("src");
const byPath = new Map(sources.map((file) => [file.path, file]));
const everything = ["src", "test", "scripts", "examples", "bench"].flatMap(readSources);

const below = (path: string): string => path.slice("src/".length);
const resolve = (file: SourceFile, specifier: string): string => posix.join(posix.dirname(file.path), specifier);

function mayImport(layer: Layer, file: SourceFile, { specifier, typeOnly }: Import): boolean {
  if (specifier.startsWith("node:")) return layer.node === "any" || layer.node.includes(specifier.slice(5));
  if (!specifier.startsWith(".")) return mayImportPackage(layer, specifier);
  const target = layerOf(below(resolve(file, specifier)))?.name ?? "a file outside of src";
  if (target === layer.name || layer.layers.includes(target)) return true;
  return typeOnly && layer.types?.includes(target) === true;
}

/** What is wrong with the imports of one file of src/, in words. */
function problemsOf(file: SourceFile): string[] {
  const layer = layerOf(below(file.path));
  if (!layer) return [`${file.path} belongs to no layer of test/architecture/imports.ts`];
  return file.imports
    .filter((imported) => !mayImport(layer, file, imported))
    .map(({ specifier }) => `${file.path} (${layer.name}) may not import ${specifier}`);
}

/** The first cycle of imports found, as a path of files. */
function findCycle(): string[] | undefined {
  const finished = new Set<string>();
  const visit = (path: string, trail: string[]): string[] | undefined => {
    if (trail.includes(path)) return [...trail.slice(trail.indexOf(path)), path];
    const file = byPath.get(path);
    if (!file || finished.has(path)) return undefined;
    for (const { specifier } of file.imports) {
      const cycle = specifier.startsWith(".") ? visit(resolve(file, specifier), [...trail, path]) : undefined;
      if (cycle) return cycle;
    }
    finished.add(path);
    return undefined;
  };
  for (const { path } of sources) {
    const cycle = visit(path, []);
    if (cycle) return cycle;
  }
  return undefined;
}

function matches(files: SourceFile[], pattern: RegExp, part: "text" | "code"): string[] {
  return files.flatMap((file) => [...file[part].matchAll(pattern)].map(([found]) => `${file.path}: ${found.trim()}`));
}

describe("the reader of sources", () => {
  test("finds the files it is meant to check", () => {
    const core = sources.filter(({ path }) => path.startsWith("src/core/"));
    expect(core.length).toBeGreaterThanOrEqual(10);
    expect(sources.length).toBeGreaterThan(core.length);
    expect(everything.length).toBeGreaterThan(sources.length);
  });

  test("sees every form of import", () => {
    const text = [
      'import { a } from "a";',
      'import type { b } from "b";',
      'import {\n  c,\n  type D,\n} from "./c.ts";',
      'import "e";',
      'export { f } from "f";',
      'export type * from "g";',
      'const h = await import("h");',
    ].join("\n");
    const seen = importsOf(text).map(({ specifier, typeOnly }) => (typeOnly ? `type ${specifier}` : specifier));
    expect(seen.sort()).toEqual(["./c.ts", "a", "e", "f", "h", "type b", "type g"]);
  });

  test("tells code from comments and strings", () => {
    const code = stripNoise('const a = "process"; // Date\n/* async */ const b = `Promise ${Math.random()}`;');
    expect(code).not.toMatch(/process|Date|async|Promise/);
    expect(code).toMatch(/Math\.random/);
  });
});

describe("direction", () => {
  test("no import points outward", () => {
    expect(sources.flatMap(problemsOf)).toEqual([]);
  });

  test("there is no cycle", () => {
    expect(findCycle()).toBeUndefined();
  });

  test("the table names only layers that exist", () => {
    const names = layers.map(({ name }) => name);
    expect(
      layers.flatMap((layer) => [...layer.layers, ...(layer.types ?? [])]).filter((n) => !names.includes(n)),
    ).toEqual([]);
  });

  test("an outward import would be seen", () => {
    const text = 'import { createRunStore } from "../redis/run-store.ts";\nimport { Queue } from "bullmq";';
    const bad = { path: "src/core/bad.ts", text, code: text, imports: importsOf(text) };
    expect(problemsOf(bad)).toHaveLength(2);
  });
});

describe("house rules that no lint rule can see", () => {
  const impure =
    /\b(async|await|Promise|Date|process|performance|crypto|setTimeout|setInterval|setImmediate|queueMicrotask|fetch)\b|\bMath\s*\.\s*random\b/g;

  test("the core is pure", () => {
    expect(
      matches(
        sources.filter(({ path }) => path.startsWith("src/core/")),
        impure,
        "code",
      ),
    ).toEqual([]);
  });

  test("no rule is switched off in a comment", () => {
    const off = /(?:\/\/|\/\*)\s*(?:oxlint-|eslint-|biome-ignore|@ts-ignore|@ts-nocheck|(?:v8|c8|istanbul) ignore).*/g;
    expect(matches(everything, off, "text")).toEqual([]);
    expect(matches(sources, /\/\/\s*@ts-expect-error.*/g, "text")).toEqual([]);
  });

  test("the word job stays in src/bullmq", () => {
    const others = sources.filter(({ path }) => !path.startsWith("src/bullmq/"));
    expect(matches(others, /\b\w*job\w*\b/gi, "code")).toEqual([]);
  });

  test("files stay under their caps", () => {
    const over = everything.filter(
      ({ path, text }) => text.split("\n").length - 1 > (path.startsWith("src/") ? 300 : 600),
    );
    expect(over.map(({ path }) => path)).toEqual([]);
  });
});
