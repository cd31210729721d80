// Fills the marked parts of README.md from what they describe: programs from the examples, the recipes from their first
// sentences, the guarantees from test/guarantees.ts, the settings from src/config.ts, the fields of the queue contract
// from its schema. With --check it writes nothing and fails if README.md is not what it would write. Both ways it fails if
// a page links to a file or a heading that is not there.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { z } from "zod";
import { makeRunsSchema } from "../src/bullmq/runs-schema.ts";
import { toSettingsTable } from "../src/config.ts";
import { findProofs, guarantees } from "../test/guarantees.ts";

const target = "README.md";

/** What is marked `// #region NAME` in a file, as an application would write it. */
function readRegion(file: string, name: string): string {
  const text = readFileSync(file, "utf8");
  const [, rest] = text.split(`// #region ${name}\n`);
  const [region] = rest?.split("// #endregion") ?? [];
  if (rest === undefined || region === undefined) throw new Error(`${file} has no region "${name}"`);
  // An application imports the package, and brings no stand-in for its model.
  const own = region
    .replace('"../src/index.ts"', '"drover"')
    .replace('"../src/testing/index.ts"', '"drover/testing"')
    .replace("standIn ?? ", "");
  return `\`\`\`ts\n${own.trim()}\n\`\`\``;
}

function makeRecipes(): string {
  const files = readdirSync("examples").filter((name) => /^\d\d-.*\.ts$/.test(name));
  const lines = files.sort().map((name) => {
    const comment = /^(?:\/\/.*\n)+/.exec(readFileSync(`examples/${name}`, "utf8"))?.[0] ?? "";
    const [sentence] = comment
      .replaceAll(/^\/\/ /gm, "")
      .replaceAll("\n", " ")
      .split(/(?<=[.!?]) /);
    if (!sentence) throw new Error(`examples/${name} does not begin with a comment`);
    return `- [\`${name}\`](examples/${name}): ${sentence.trim()}`;
  });
  return lines.join("\n");
}

function makeGuarantees(): string {
  const proofs = findProofs();
  const rows = guarantees.map(({ id, promise }) => {
    const files = [...new Set(proofs.filter((proof) => proof.id === id).map(({ file }) => file))].sort();
    const links = files.map(
      (file) => `[${file.replace(/^test\//, "").replace(/\.(test|contract)\.ts$/, "")}](${file})`,
    );
    return `| ${id} | ${promise} | ${links.join(", ")} |`;
  });
  return ["| | Promise | Tests that fail without it |", "| --- | --- | --- |", ...rows].join("\n");
}

const schemaSchema = z.object({
  properties: z.record(z.string(), z.looseObject({ description: z.string() })),
  required: z.array(z.string()),
});

function makeFields(): string {
  const { properties, required } = schemaSchema.parse(makeRunsSchema());
  const rows = Object.entries(properties).map(
    ([name, { description }]) => `| \`${name}\` | ${required.includes(name) ? "yes" : ""} | ${description} |`,
  );
  return ["| Field | Required | Meaning |", "| --- | --- | --- |", ...rows].join("\n");
}

/** The content of a part by its name: `settings`, or `region FILE NAME`. */
function makePart(name: string): string {
  const [kind, file = "", region = ""] = name.split(" ");
  if (kind === "region") return readRegion(file, region);
  if (kind === "recipes") return makeRecipes();
  if (kind === "guarantees") return makeGuarantees();
  if (kind === "settings") return toSettingsTable();
  if (kind === "fields") return makeFields();
  throw new Error(`${target} asks for "${name}", which this script cannot make`);
}

const text = readFileSync(target, "utf8");
const marked = /<!-- made: (?<name>.+?) -->\n[\s\S]*?<!-- end -->/g;
const wanted = text.replaceAll(marked, (_part, name: string) => {
  return `<!-- made: ${name} -->\n${makePart(name)}\n<!-- end -->`;
});

/** Links of a page to files and headings of this repository that lead nowhere. */
function findDeadLinks(page: string, content: string): string[] {
  const prose = content.replaceAll(/^```[\s\S]*?^```$/gm, "");
  const headings = [...prose.matchAll(/^#+ (.+)$/gm)].map(([, title = ""]) =>
    title
      .toLowerCase()
      .replaceAll(/[^\w\s-]/g, "")
      .replaceAll(" ", "-"),
  );
  const links = [...prose.matchAll(/\]\((?!https?:)([^)]+)\)/g)].map(([, link = ""]) => link);
  const dead = links.filter((link) =>
    link.startsWith("#") ? !headings.includes(link.slice(1)) : !existsSync(link.replace(/#.*/, "")),
  );
  return dead.map((link) => `${page} links to ${link}, which is not there`);
}

function fail(message: string): void {
  console.error(message);
  process.exitCode = 1;
}

const longestProgram = 20;
const program = readRegion("examples/01-first-run.ts", "program").split("\n").length - 2;
if (program > longestProgram) fail(`The first program has ${program} lines; at most ${longestProgram} are promised.`);
const pages = ["DESIGN.md", "CONTRIBUTING.md"].map((page) => [page, readFileSync(page, "utf8")] as const);
for (const [page, content] of [[target, wanted] as const, ...pages]) findDeadLinks(page, content).forEach(fail);
if (!process.argv.includes("--check")) writeFileSync(target, wanted);
else if (text !== wanted) fail(`${target} is not what scripts/readme.ts writes: run "npx node scripts/readme.ts".`);
