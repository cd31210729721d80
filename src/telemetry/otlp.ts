import { randomBytes } from "node:crypto";
import { createRequire } from "node:module";
import { hostname } from "node:os";
import { atMost } from "../at-most.ts";
import { type Protocol, protocols } from "./exporter.ts";

const require = createRequire(import.meta.url);

export type Env = Record<string, string | undefined>;
export type Signal = "TRACES" | "METRICS";

/** Where a signal goes, why it goes nowhere in one sentence (`""`: that is what was asked for), or neither. */
export type Way = { endpoint: URL; protocol: Protocol };
export type Otlp = Way | { problem: string } | undefined;

/** What the standard variables say of one signal's way out. */
export function readOtlp(env: Env, signal: Signal, exporters: string[]): Otlp {
  const endpoint = env[`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`] || env.OTEL_EXPORTER_OTLP_ENDPOINT;
  if (!endpoint) return undefined;
  if (exporters.includes("none")) return { problem: "" };
  if (!exporters.includes("otlp") && exporters.every((name) => knownExporters[signal].includes(name))) {
    return { problem: "" };
  }
  const what = problemOf(env, signal, exporters, endpoint);
  if (what !== undefined)
    return { problem: `${what}; ${signal === "TRACES" ? "tracing is off" : "metrics are not sent"}` };
  return { endpoint: new URL(endpoint), protocol: protocolOf(env, signal) as Protocol };
}

const knownExporters: Record<Signal, readonly string[]> = { TRACES: ["otlp"], METRICS: ["otlp", "prometheus"] };

function problemOf(env: Env, signal: Signal, exporters: string[], endpoint: string): string | undefined {
  const known = knownExporters[signal];
  const strange = exporters.find((name) => !known.includes(name));
  if (strange !== undefined) {
    return `OTEL_${signal}_EXPORTER=${strange} is not supported (${known.join(", ")} and none are)`;
  }
  const protocol = protocolOf(env, signal);
  if (!protocols.some((supported) => supported === protocol)) {
    return `OTLP protocol ${protocol} is not supported (${protocols.join(" and ")} are, usually on port 4318)`;
  }
  const parsed = URL.parse(endpoint);
  if (parsed?.protocol === "http:" || parsed?.protocol === "https:") return undefined;
  return "the OTLP endpoint must be an http:// or https:// URL";
}

/** The names in `OTEL_TRACES_EXPORTER` or `OTEL_METRICS_EXPORTER`; OTLP by default. */
export function readExporters(env: Env, signal: Signal): string[] {
  const names = (env[`OTEL_${signal}_EXPORTER`] ?? "").split(",").map((name) => name.trim());
  const given = names.filter((name) => name !== "");
  return given.length > 0 ? given : ["otlp"];
}

const protocolOf = (env: Env, signal: Signal): string =>
  (env[`OTEL_EXPORTER_OTLP_${signal}_PROTOCOL`] || env.OTEL_EXPORTER_OTLP_PROTOCOL || "http/protobuf").trim();

export const isTrue = (value: string | undefined): boolean => value?.trim().toLowerCase() === "true";

/** Which process something came from, the same for its traces and its metrics. */
const identity = {
  "service.name": "drover",
  "service.instance.id": `${hostname()}-${process.pid}-${randomBytes(4).toString("hex")}`,
};

/** Who we are to a collector; names and attributes of the environment win over ours. */
export function ownResource(): import("@opentelemetry/resources").Resource {
  const { defaultResource, resourceFromAttributes } =
    require("@opentelemetry/resources") as typeof import("@opentelemetry/resources");
  return defaultResource().merge(resourceFromAttributes(identity));
}

/** Upper bound of a shutdown, in ms. */
const flushMs = 2_000;

/**
 * Shuts all down at once, sending what is left, for so long; then what is under way is given up. One that fails, even at
 * once, takes none of the others' time. Never rejects.
 */
export async function flush(parts: readonly (Shutdown | undefined)[], giveUp: () => void): Promise<void> {
  // A failed export was logged when it happened.
  await atMost(flushMs, Promise.allSettled(parts.map(async (part) => part?.shutdown())));
  try {
    giveUp();
  } catch {
    // There is nothing more to give up.
  }
}

type Shutdown = { shutdown(): Promise<void> };

/** One of a kind in this process, for any number of users: made for the first, stopped after the last. */
export function createShared<T extends { stop(): Promise<void> }>(): {
  use(make: () => T): { value: T; release(): Promise<void> };
  current(): T | undefined;
} {
  let shared: { value: T; users: number } | undefined;
  return {
    current: () => shared?.value,
    use(make) {
      shared ??= { value: make(), users: 0 };
      const held = shared;
      held.users += 1;
      let released: Promise<void> | undefined;
      const release = async (): Promise<void> => {
        held.users -= 1;
        if (held.users > 0) return;
        if (shared === held) shared = undefined;
        await held.value.stop();
      };
      return {
        value: held.value,
        release() {
          released ??= release();
          return released;
        },
      };
    },
  };
}
