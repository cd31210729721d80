import { readdirSync, readFileSync } from "node:fs";

/** A source file as text. `code` is the text without comments and without the contents of strings. */
export type SourceFile = { path: string; text: string; code: string; imports: Import[] };
export type Import = { specifier: string; typeOnly: boolean };

const comment = /\/\*[\s\S]*?\*\/|\/\/[^\n]*/;
const quoted = /"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'/;
const template = /`(?:\\.|[^`\\])*`/;
const noise = new RegExp([quoted, template, comment].map(({ source }) => source).join("|"), "g");

/** Blanks what is not code. Expressions inside of templates are code and stay. */
export function stripNoise(text: string): string {
  return text.replaceAll(noise, (part) => {
    if (part.startsWith("`")) return [...part.matchAll(/\$\{([^}]*)\}/g)].map(([, code]) => code).join(";");
    return part.startsWith("/") ? " " : '""';
  });
}

const importForms = [
  /^\s*(?:import|export)\s+(?<type>type\s)?[^"';()]*?from\s+"(?<specifier>[^"]+)"/gm,
  /^\s*import\s+"(?<specifier>[^"]+)"/gm,
  /\bimport\(\s*"(?<specifier>[^"]+)"/g,
];

/** Every import and re-export of a file, dynamic ones too. `import("x").T` in a type counts as an import. */
export function importsOf(text: string): Import[] {
  return importForms.flatMap((form) =>
    [...text.matchAll(form)].map(({ groups }) => ({
      specifier: groups?.specifier ?? "",
      typeOnly: groups?.type !== undefined,
    })),
  );
}

/** All TypeScript files below a folder; paths are relative to the repository, with "/". */
export function readSources(folder: string): SourceFile[] {
  const root = new URL(`../../${folder}/`, import.meta.url);
  return readdirSync(root, { recursive: true, encoding: "utf8" })
    .map((name) => name.replaceAll("\\", "/"))
    .filter((name) => /\.(ts|mts|mjs)$/.test(name))
    .sort()
    .map((name) => {
      const text = readFileSync(new URL(name, root), "utf8");
      return { path: `${folder}/${name}`, text, code: stripNoise(text), imports: importsOf(text) };
    });
}
