// docs/api.md: what the package exports, as declared, with its docstrings; then the types that those name.
import { type Declaration, type Declarations, readDeclarations } from "./declarations.ts";

type Entry = { title: string; about: string; file: string };

const entries: Entry[] = [
  { title: "drover", about: "Agents, tools, producers and workers.", file: "index.ts" },
  {
    title: "drover/server",
    about: "The HTTP API, OpenAI-compatible endpoints and the operators' pages.",
    file: "server.ts",
  },
  { title: "drover/testing", about: "Runs without Redis and without a model.", file: "testing/index.ts" },
];

/** Types that are behind these are whole subsystems, whose inside is nobody's to use. */
const hidden = new Set(["Telemetry", "RunStore", "StepQueue", "Signals", "FleetGates", "AgentCode", "Engine"]);

export function makeApi(): string {
  const declarations = readDeclarations();
  const shown = new Map<string, Declaration>();
  const sections = entries.map((entry) => {
    const own = declarations.exportsOf(entry.file).flatMap((name) => {
      const found = declarations.find(entry.file, name);
      if (!found) throw new Error(`${entry.file} exports ${name}, whose declaration was not found`);
      shown.set(keyOf(found), found);
      return { ...found, name };
    });
    const values = own.filter(({ code }) => isValue(code));
    const types = own.filter(({ code }) => !isValue(code)).sort((a, b) => compare(a.name, b.name));
    return { ...entry, own: [...values.sort((a, b) => compare(a.name, b.name)), ...types] };
  });
  const anchors = makeAnchors(sections.flatMap(({ own }) => own));
  const named = follow(declarations, [...shown.values()], shown).sort((a, b) => compare(a.name, b.name));
  return [
    "# API reference",
    "",
    "What the package exports, as it is declared. Made from the docstrings by `npm run docs`. Durations are in ms, times epoch",
    "ms, sizes bytes, unless a name says otherwise.",
    "",
    ...sections.flatMap(({ title, own }) => [
      `- **\`${title}\`**: ${own.map(({ name }) => `[${name}](#${anchors.get(name)})`).join(" · ")}`,
      "",
    ]),
    ...sections.flatMap(({ title, about, own }) => [`## Package ${title}`, "", about, "", ...own.flatMap(toBlock)]),
    "## Types that these name",
    "",
    "They are not exported; TypeScript infers them.",
    "",
    ...named.flatMap(toBlock),
  ].join("\n");
}

const keyOf = ({ file, name }: Declaration): string => `${file} ${name}`;
const isValue = (code: string): boolean => /^(?:class|function|const)\b/.test(code);
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Headings that are alike but for case are told apart by a number, as GitHub does. */
function makeAnchors(headings: { name: string }[]): Map<string, string> {
  const seen = new Map<string, number>();
  return new Map(
    headings.map(({ name }) => {
      const plain = name.toLowerCase();
      const before = seen.get(plain) ?? 0;
      seen.set(plain, before + 1);
      return [name, before === 0 ? plain : `${plain}-${before}`];
    }),
  );
}

/** What the declarations name in turn, as far as it is ours. */
function follow(declarations: Declarations, from: Declaration[], shown: Map<string, Declaration>): Declaration[] {
  const found: Declaration[] = [];
  for (const { file, code } of from) {
    for (const [name] of withoutDocs(code).matchAll(/\b[A-Z]\w+\b/g)) {
      const declared = hidden.has(name) ? undefined : declarations.find(file, name);
      if (!declared || shown.has(keyOf(declared))) continue;
      shown.set(keyOf(declared), declared);
      found.push(declared);
    }
  }
  return found.length > 0 ? [...found, ...follow(declarations, found, shown)] : [];
}

const withoutDocs = (code: string): string => code.replaceAll(/\/\*\*[\s\S]*?\*\//g, "");

function toBlock({ name, doc, code }: Declaration): string[] {
  return [`### ${name}`, "", ...(doc === "" ? [] : [toProse(doc), ""]), "```ts", indent(code), "```", ""];
}

/** Tags of a docstring as a list. */
function toProse(doc: string): string {
  return doc
    .replaceAll(/^@param (\S+) /gm, "- `$1`: ")
    .replaceAll(/@throws /g, "\n- Throws ")
    .replaceAll(/^@returns? /gm, "- Returns ")
    .replaceAll(/\n{3,}/g, "\n\n")
    .trim();
}

/** The compiler indents by four, this repository by two. */
function indent(code: string): string {
  return code.replaceAll(/^(?: {4})+/gm, (space) => space.slice(space.length / 2));
}
