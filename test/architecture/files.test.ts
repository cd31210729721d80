// Would catch a setting that was renamed in the code but not in the files people copy from, and a worker container
// that is killed before it has handed its steps back.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { settings } from "../../src/config.ts";

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");
const compose = read("docker-compose.yml");

/** Names that code knows; the standard ones of OpenTelemetry, and Grafana's own, are not ours to list. */
function unknown(names: (string | undefined)[]): (string | undefined)[] {
  const known = settings.map(({ name }) => name);
  return names.filter((name) => name === undefined || (!known.includes(name) && !/^(?:OTEL|GF)_/.test(name)));
}

test(".env.example names settings that exist", () => {
  const names = [...read(".env.example").matchAll(/^(?:# )?([A-Z_]+)=/gm)].map(([, name]) => name);
  expect(names.length).toBeGreaterThan(3);
  expect(unknown(names)).toEqual([]);
});

test("docker-compose.yml sets settings that exist", () => {
  const names = [...compose.matchAll(/^ {6}([A-Z_]+):/gm)].map(([, name]) => name);
  expect(names.length).toBeGreaterThan(3);
  expect(unknown(names)).toEqual([]);
});

test("a worker container has longer to stop than a worker takes", () => {
  const worker = compose.slice(compose.indexOf("  worker:"), compose.indexOf("  jaeger:"));
  const graceMs = Number(/stop_grace_period: (\d+)s/.exec(worker)?.[1]) * 1000;
  const workerMs = Number(settings.find(({ name }) => name === "DROVER_STOP_GRACE_MS")?.defaultValue);
  expect(graceMs).toBeGreaterThan(workerMs + 5_000);
});
