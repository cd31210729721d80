// The one table of allowed imports. `npm run write-lint` turns it into lint rules, layers.test.ts checks the source
// text against it, so that neither a disable comment nor an edited lint file lets an arrow point outward.

/** A part of `src/` and what it may import. Whatever is not listed is forbidden. */
export type Layer = {
  name: string;
  /** Folders of `src/` (they end in "/") or files of it. */
  places: readonly string[];
  /** Other layers it may import, by name. */
  layers: readonly string[];
  /** Layers of which it may import types only. */
  types?: readonly string[];
  /** Packages; a name ending in "/*" stands for a whole scope. */
  packages: readonly string[];
  /** Node modules without the "node:" prefix, or all of them. */
  node: readonly string[] | "any";
};

const adapters = ["redis", "bullmq", "openai", "telemetry", "tokens", "tools"] as const;

export const layers: readonly Layer[] = [
  { name: "core", places: ["core/"], layers: [], packages: ["zod"], node: [] },
  {
    name: "ports",
    places: [
      "ports.ts",
      "ports-agent.ts",
      "ports-gates.ts",
      "ports-model.ts",
      "ports-operators.ts",
      "ports-retention.ts",
      "ports-sharding.ts",
      "ports-telemetry.ts",
      "ports-tokens.ts",
      "ports-tools.ts",
    ],
    layers: ["core"],
    packages: [],
    node: [],
  },
  { name: "sharding", places: ["sharding/"], layers: ["core", "ports"], packages: [], node: [] },
  { name: "engine", places: ["engine/"], layers: ["core", "ports", "at-most"], packages: [], node: ["crypto"] },
  {
    name: "tools",
    places: ["tools/"],
    layers: ["core", "ports"],
    packages: ["zod", "@cfworker/json-schema", "expr-eval-fork", "image-size", "ipaddr.js", "mrmime"],
    node: "any",
  },
  {
    name: "redis",
    places: ["redis/"],
    layers: ["core", "ports", "redis-url", "end-client"],
    packages: ["ioredis", "zod"],
    node: "any",
  },
  {
    name: "bullmq",
    places: ["bullmq/"],
    layers: ["core", "ports", "at-most", "end-client"],
    packages: ["@bull-board/*", "bullmq", "hono", "ioredis", "zod"],
    node: "any",
  },
  {
    name: "openai",
    places: ["openai/"],
    layers: ["core", "ports"],
    packages: ["openai", "eventsource-parser", "zod"],
    node: "any",
  },
  {
    name: "telemetry",
    places: ["telemetry/"],
    layers: ["core", "ports", "at-most"],
    packages: ["@opentelemetry/*", "pino", "zod"],
    node: "any",
  },
  { name: "tokens", places: ["tokens/"], layers: ["core", "ports"], packages: ["gpt-tokenizer"], node: [] },
  { name: "embedded", places: ["embedded/"], layers: ["core"], packages: [], node: "any" },
  {
    name: "redaction",
    places: ["redaction/"],
    layers: ["core", "redis-url"],
    packages: ["re2js", "zod"],
    node: ["module"],
  },
  // What an API key looks like; shared by whoever makes, reads or checks one.
  { name: "api-keys", places: ["api-keys.ts"], layers: ["ports"], packages: [], node: ["crypto"] },
  // What a URL with several hosts looks like; shared by whoever checks, hides or follows one.
  { name: "redis-url", places: ["redis-url.ts"], layers: [], packages: [], node: [] },
  // A wait with a limit: the core, which everybody may import, has no promises.
  { name: "at-most", places: ["at-most.ts"], layers: [], packages: [], node: [] },
  // Ending a client for good; shared by whoever makes some.
  { name: "end-client", places: ["end-client.ts"], layers: [], packages: [], node: [] },
  // Undoing in order, whatever fails; shared by the commands that start processes.
  { name: "releases", places: ["releases.ts"], layers: [], packages: [], node: [] },
  {
    name: "config",
    places: ["config.ts", "config/", "hide-password.ts"],
    layers: ["core", "ports", "api-keys", "redaction", "redis-url"],
    packages: ["zod"],
    node: ["fs", "path", "util"],
  },
  {
    name: "drover",
    // The composition root and what it alone needs.
    places: [
      "drover.ts",
      "backend.ts",
      "open-shards.ts",
      "read-options.ts",
      "step-workers.ts",
      "worker.ts",
      "worker-pause.ts",
      "worker-health.ts",
      "own-workers.ts",
      "presence.ts",
      "elsewhere.ts",
      "fleet.ts",
      "define-agent.ts",
      "ids.ts",
      "isolate.ts",
    ],
    layers: ["core", "ports", "sharding", "engine", "config", "redaction", "at-most", "end-client", ...adapters],
    packages: ["ioredis", "zod"],
    node: "any",
  },
  {
    name: "http",
    places: ["http/"],
    layers: ["core", "ports", "engine", "api-keys", "at-most"],
    types: ["drover"],
    packages: ["@hono/zod-openapi", "hono", "ipaddr.js", "zod"],
    node: ["crypto", "fs"],
  },
  {
    // The root that puts HTTP over Redis.
    name: "server",
    places: ["server.ts", "server/"],
    layers: ["core", "ports", "engine", "config", "redaction", "drover", "http", ...adapters],
    packages: ["@hono/node-server", "zod"],
    node: "any",
  },
  {
    name: "testing",
    places: ["testing/"],
    layers: ["core", "ports", "engine", "tools", "telemetry", "redaction", "drover"],
    types: ["openai"],
    packages: [],
    node: "any",
  },
  {
    // `drover chaos`: the engine over memory, and whole workers over a private Redis, while faults happen.
    name: "chaos",
    places: ["chaos/"],
    layers: [
      "core",
      "ports",
      "engine",
      "tools",
      "telemetry",
      "redaction",
      "drover",
      "embedded",
      "testing",
      "redis",
      "releases",
    ],
    packages: ["ioredis", "zod"],
    node: "any",
  },
  {
    name: "index",
    places: ["index.ts"],
    layers: ["core", "drover", "config", "tools", "openai"],
    types: ["engine", "ports", "redaction"],
    packages: [],
    node: [],
  },
  {
    name: "cli",
    places: ["cli/"],
    // The second root: the doctor looks at the adapters themselves, and the built-in agents are made of their parts.
    layers: [
      "core",
      "drover",
      "sharding",
      "index",
      "config",
      "api-keys",
      "redaction",
      "embedded",
      "testing",
      "chaos",
      "releases",
      "server",
      ...adapters,
    ],
    types: ["engine", "ports"],
    packages: ["@bomb.sh/tab", "commander", "cli-table3", "log-update", "zod"],
    node: "any",
  },
];

/** The layer of a file given by its path below `src/`, such as "core/run.ts". */
export function layerOf(path: string): Layer | undefined {
  const isIn = (place: string): boolean => (place.endsWith("/") ? path.startsWith(place) : path === place);
  return layers.find(({ places }) => places.some(isIn));
}

/** Whether a layer may import a package, given by the name in its import. */
export function mayImportPackage(layer: Layer, specifier: string): boolean {
  return layer.packages.some((allowed) =>
    allowed.endsWith("/*")
      ? specifier.startsWith(allowed.slice(0, -1))
      : specifier === allowed || specifier.startsWith(`${allowed}/`),
  );
}
