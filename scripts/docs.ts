// npm run docs: writes the pages, and parts of pages, that are made from the code. With --check it writes nothing and
// fails for each that is not what it would write. To add one, add a row to `generated`. What makes it is loaded only then.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

type Make = () => string | Promise<string>;

/** A whole file, or named parts of one: what stands between `<!-- made: NAME -->` and `<!-- end -->`. */
type Generated = { file: string; make: Make } | { file: string; parts: Record<string, Make> };

const generated: Generated[] = [
  { file: ".env.example", make: async () => (await import("../src/config.ts")).toEnvExample() },
  { file: "docs/api.md", make: async () => (await import("./docs/api.ts")).makeApi() },
  { file: "ops/grafana/drover.json", make: async () => (await import("../ops/dashboard.ts")).makeDashboard() },
  { file: "docs/cli.md", make: async () => (await import("../src/cli/reference.ts")).makeReference() },
  {
    file: "docs/operations.md",
    parts: {
      metrics: async () => (await import("./docs/metrics.ts")).makeMetricsTable(),
      "log-fields": async () => (await import("./docs/log-fields.ts")).makeLogFieldsTable(),
    },
  },
  {
    file: "docs/http-api.md",
    parts: {
      endpoints: async () => (await import("./docs/http-api.ts")).makeEndpoints(),
      schemas: async () => (await import("./docs/http-api.ts")).makeSchemas(),
    },
  },
];

const marked = /<!-- made: (?<name>[\w-]+) -->\n[\s\S]*?<!-- end -->/g;

async function fillParts(file: string, parts: Record<string, Make>): Promise<string> {
  const made = new Map<string, string>();
  for (const [name, make] of Object.entries(parts)) made.set(name, (await make()).trim());
  const filled = new Set<string>();
  const text = readFileSync(file, "utf8").replaceAll(marked, (_part, name: string) => {
    const part = made.get(name);
    if (part === undefined) throw new Error(`${file} asks for "${name}", which nothing makes`);
    filled.add(name);
    return `<!-- made: ${name} -->\n${part}\n<!-- end -->`;
  });
  const lost = [...made.keys()].find((name) => !filled.has(name));
  if (lost !== undefined)
    throw new Error(`${file} has no place for "${lost}": add <!-- made: ${lost} --> and <!-- end -->`);
  return text;
}

async function textOf(page: Generated): Promise<string> {
  if ("parts" in page) return fillParts(page.file, page.parts);
  return `${(await page.make()).trimEnd()}\n`;
}

const isCheck = process.argv.includes("--check");
for (const page of generated) {
  const wanted = await textOf(page);
  const found = existsSync(page.file) ? readFileSync(page.file, "utf8") : undefined;
  if (found === wanted) continue;
  if (isCheck) {
    console.error(`${page.file} is not what scripts/docs.ts writes: run "npm run docs".`);
    process.exitCode = 1;
  } else {
    mkdirSync(dirname(page.file), { recursive: true });
    writeFileSync(page.file, wanted);
  }
}
