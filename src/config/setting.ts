import type { z } from "zod";
import type { LogLevel } from "../core/defaults.ts";
import type { Durability } from "../core/durability.ts";
import type { Policy } from "../core/policy.ts";
import type { Retention } from "../core/retention.ts";
import type { StoredKey } from "../ports.ts";
import type { RedactPattern } from "../redaction/patterns.ts";

/** What Drover's programs are set by. Durations in ms, sizes in bytes. */
export type Config = {
  /** Undefined: a private Redis where a command can have one, else an error. */
  redisUrl: string | undefined;
  prefix: string;
  shards: number;
  concurrency: number;
  model: string;
  openaiApiKey: string | undefined;
  openaiBaseUrl: string | undefined;
  logLevel: LogLevel;
  payloadLimitBytes: number;
  /** How long workers keep runs that have ended. */
  /** Undefined: an acknowledgement waits for the commit alone. */
  durability: Durability | undefined;
  retention: Retention;
  /** Share of Redis's memory from which on new runs are refused. */
  memoryLimitPercent: number;
  stopGraceMs: number;
  stuckAfterMs: number;
  /** How many workers a step may lose before it runs alone. */
  isolateAfter: number;
  /** What operators decide about tools; undefined: nothing. */
  policy: Policy | undefined;
  /** What is a secret too, beside the kinds that Drover knows; undefined: nothing. */
  redactPatterns: RedactPattern[] | undefined;
  /** Whether what is kept of a run is redacted too. */
  redactStored: boolean;
  /** Where `drover serve` and `drover dev` listen. Port 0: any free one. */
  httpHost: string;
  httpPort: number;
  /** Keys that are set here rather than kept in Redis, without their secrets; undefined: none. */
  apiKeys: StoredKey[] | undefined;
  httpBodyLimitBytes: number;
  httpTimeoutMs: number;
  /** Undefined: true unless the server listens on loopback alone. */
  httpSecureCookies: boolean | undefined;
  /** Where a trace is looked at, with `{traceId}` in it; undefined: nowhere. */
  traceUrl: string | undefined;
  /** Where a worker answers `GET /metrics`; undefined: nowhere. */
  metricsPort: number | undefined;
  metricsHost: string;
  /** The standard `OTEL_*` variables, as they are. */
  otel: Record<string, string>;
};

/** One row of the settings table. */
export type Setting = {
  name: string;
  description: string;
  /** As text for people; undefined: no default. */
  defaultValue: string | undefined;
  /** What a value must be, to finish the sentence "expected ...". */
  expected: string;
  secret: boolean;
};

export type SettingSpec = Setting & {
  key: Exclude<keyof Config, "otel">;
  schema: z.ZodType;
  /** The schema's own words say more than `expected`. */
  tellsMore?: boolean;
};
