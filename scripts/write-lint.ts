// Writes .oxlintrc.json: the house rules below, and the import rules made from the table in test/architecture.
// With --check it writes nothing and fails if the file is not what it would write.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { type Layer, layers } from "../test/architecture/imports.ts";

const target = ".oxlintrc.json";

const rules = {
  "no-console": "error",
  "max-params": ["error", { max: 4 }],
  // A flat switch over a union counts once: it is the clearest form of a closed set.
  complexity: ["error", { max: 12, variant: "modified" }],
  "max-lines": ["error", { max: 300 }],
  "max-lines-per-function": ["error", { max: 60 }],
  eqeqeq: "error",
  "no-var": "error",
  "prefer-const": "error",
  "no-param-reassign": "error",
  "import/no-cycle": "error",
  "import/no-default-export": "error",
  // Spreading a literal groups fields; it costs nothing and reads better than one long line.
  "unicorn/no-useless-spread": "off",
  "vitest/expect-expect": ["error", { assertFunctionNames: ["expect", "expect*", "judge"] }],
  "typescript/no-explicit-any": "error",
  "typescript/no-non-null-assertion": "error",
  // `typeof import("x")` is how a lazily loaded module gets its type.
  "typescript/consistent-type-imports": ["error", { disallowTypeAnnotations: false }],
  "typescript/ban-ts-comment": "error",
  "typescript/no-floating-promises": "error",
  "typescript/no-misused-promises": "error",
  "typescript/await-thenable": "error",
  // Factories return plain objects: there is no `this` to lose.
  "typescript/unbound-method": "off",
  "typescript/switch-exhaustiveness-check": ["error", { considerDefaultExhaustiveForUnions: true }],
};

/** What a pure core may not touch; layers.test.ts adds what no lint rule can see, such as `async`. */
const pure = {
  "no-restricted-globals": [
    "error",
    "process",
    "crypto",
    "performance",
    "setTimeout",
    "setInterval",
    "setImmediate",
    "queueMicrotask",
    "fetch",
    "Buffer",
  ],
  "no-restricted-properties": [
    "error",
    { object: "Date", property: "now", message: "Time comes in with the event (meta.at)." },
    { object: "Math", property: "random", message: "Randomness comes in through the ports." },
  ],
};

const escape = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\/]/g, "\\$&");

/** Patterns for imports of `other` in files of `layer`: "../redis/keys.ts" in a folder, "./redis/keys.ts" beside it. */
function layerPatterns(layer: Layer, other: Layer): string[] {
  const start = layer.places.some((place) => place.endsWith("/")) ? "^(\\.\\./)+" : "^\\./";
  return other.places.map((place) => `${start}${escape(place)}${place.endsWith("/") ? "" : "$"}`);
}

/** Everything but the allowed packages and Node modules; the regexes know no look-ahead, so names are listed. */
function forbiddenPackages(layer: Layer): string[] {
  const all = new Set(layers.flatMap(({ packages }) => packages));
  return [...all]
    .filter((name) => !layer.packages.includes(name))
    .map((name) => (name.endsWith("/*") ? `^${escape(name.slice(0, -1))}` : `^${escape(name)}(/|$)`));
}

function patternsFor(layer: Layer): object[] {
  const others = layers.filter(({ name }) => name !== layer.name && !layer.layers.includes(name));
  const message = `${layer.name} may import ${[...layer.layers, ...layer.packages].join(", ") || "nothing"}: see test/architecture/imports.ts.`;
  const patterns: object[] = others.flatMap((other) => {
    const allowTypeImports = layer.types?.includes(other.name) === true;
    return layerPatterns(layer, other).map((regex) => ({ regex, message, allowTypeImports }));
  });
  for (const regex of forbiddenPackages(layer)) patterns.push({ regex, message });
  if (layer.node !== "any" && layer.node.length === 0) patterns.push({ regex: "^node:", message });
  return patterns;
}

const config = {
  $schema: "./node_modules/oxlint/configuration_schema.json",
  plugins: ["typescript", "unicorn", "oxc", "import", "vitest"],
  options: { typeAware: true, denyWarnings: true, reportUnusedDisableDirectives: "error" },
  categories: { correctness: "error" },
  ignorePatterns: ["node_modules", "dist", "coverage", ".drover", "test/corpus"],
  rules,
  overrides: [
    ...layers.map((layer) => ({
      files: layer.places.map((place) => `src/${place}${place.endsWith("/") ? "**" : ""}`),
      rules: { "no-restricted-imports": ["error", { patterns: patternsFor(layer) }] },
    })),
    { files: ["src/core/**"], rules: pure },
    { files: ["src/cli/**", "scripts/**", "examples/**", "bench/**"], rules: { "no-console": "off" } },
    // Values are looked at here as they print; what they are is asserted beside it.
    { files: ["test/**", "examples/**"], rules: { "typescript/no-base-to-string": "off" } },
    {
      files: ["test/**"],
      rules: {
        "max-lines": ["error", { max: 600 }],
        "max-lines-per-function": "off",
        complexity: "off",
        "typescript/require-array-sort-compare": "off",
        "vitest/require-to-throw-message": "off",
        "vitest/no-conditional-expect": "off",
        // Contract suites and helpers register tests and assert for them.
        "vitest/no-standalone-expect": "off",
        "typescript/no-non-null-assertion": "off",
      },
    },
    { files: ["vitest.config.ts"], rules: { "import/no-default-export": "off" } },
  ],
};

const wanted = execFileSync("biome", ["format", `--stdin-file-path=${target}`], {
  input: JSON.stringify(config),
  encoding: "utf8",
});
if (process.argv.includes("--check")) {
  if (readFileSync(target, "utf8") !== wanted) {
    console.error(`${target} is not what scripts/write-lint.ts writes: run "npm run write-lint".`);
    process.exitCode = 1;
  }
} else writeFileSync(target, wanted);
