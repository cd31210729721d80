// The one table of allowed imports. `npm run write-lint` turns it into lint rules, layers.test.ts checks the source
// text against it, so that neither a disable comment nor an edited lint file lets an arrow point outward.

/** A part of `src/` and what it may import. Whatever is not listed is forbidden. */
export type Layer = {
  name: string;
  /** A folder of `src/` (ends in "/") or one file of it. */
  place: string;
  /** Other layers it may import, by name. */
  layers: readonly string[];
  /** Layers of which it may import types only. */
  types?: readonly string[];
  /** Packages; a name ending in "/*" stands for a whole scope. */
  packages: readonly string[];
  /** Node modules without the "node:" prefix, or all of them. */
  node: readonly string[] | "any";
};

const adapters = ["redis", "bullmq", "openai", "telemetry", "tools"] as const;

export const layers: readonly Layer[] = [
  { name: "core", place: "core/", layers: [], packages: ["zod"], node: [] },
  { name: "ports", place: "ports.ts", layers: ["core"], packages: [], node: [] },
  { name: "engine", place: "engine/", layers: ["core", "ports"], packages: [], node: ["crypto"] },
  {
    name: "tools",
    place: "tools/",
    layers: ["core", "ports"],
    packages: ["zod", "@cfworker/json-schema", "expr-eval-fork", "ipaddr.js"],
    node: "any",
  },
  { name: "redis", place: "redis/", layers: ["core", "ports"], packages: ["ioredis", "zod"], node: "any" },
  { name: "bullmq", place: "bullmq/", layers: ["core", "ports"], packages: ["bullmq", "ioredis", "zod"], node: "any" },
  {
    name: "openai",
    place: "openai/",
    layers: ["core", "ports"],
    packages: ["openai", "eventsource-parser", "zod"],
    node: "any",
  },
  {
    name: "telemetry",
    place: "telemetry/",
    layers: ["core", "ports"],
    packages: ["@opentelemetry/*", "pino", "zod"],
    node: "any",
  },
  { name: "embedded", place: "embedded/", layers: ["core"], packages: [], node: "any" },
  { name: "config", place: "config.ts", layers: ["core"], packages: ["zod"], node: ["fs", "path", "util"] },
  {
    name: "define-agent",
    place: "define-agent.ts",
    layers: ["core", "ports", "engine", "tools"],
    packages: ["zod"],
    node: ["crypto"],
  },
  {
    name: "drover",
    place: "drover.ts",
    layers: ["core", "ports", "engine", "config", "define-agent", ...adapters],
    packages: ["ioredis"],
    node: "any",
  },
  {
    name: "testing",
    place: "testing/",
    layers: ["core", "ports", "engine", "tools", "define-agent", "drover"],
    types: ["openai"],
    packages: [],
    node: "any",
  },
  {
    name: "index",
    place: "index.ts",
    layers: ["core", "drover", "define-agent", "config", "tools", "openai"],
    packages: [],
    node: [],
  },
  {
    name: "cli",
    place: "cli/",
    // The second root: the doctor looks at the adapters themselves, and the built-in agents are made of their parts.
    layers: ["core", "drover", "define-agent", "index", "config", "embedded", "testing", ...adapters],
    types: ["engine", "ports"],
    packages: ["commander", "cli-table3", "zod", "bullmq"],
    node: "any",
  },
];

/** The layer of a file given by its path below `src/`, such as "core/run.ts". */
export function layerOf(path: string): Layer | undefined {
  return layers.find(({ place }) => (place.endsWith("/") ? path.startsWith(place) : path === place));
}

/** Whether a layer may import a package, given by the name in its import. */
export function mayImportPackage(layer: Layer, specifier: string): boolean {
  return layer.packages.some((allowed) =>
    allowed.endsWith("/*")
      ? specifier.startsWith(allowed.slice(0, -1))
      : specifier === allowed || specifier.startsWith(`${allowed}/`),
  );
}
