import { readFileSync } from "node:fs";
import { z } from "zod";
import { type LogLevel, logLevels } from "./core/defaults.ts";
import { DroverError, toError } from "./core/errors.ts";
import { findRepeatedKey, type Policy, parsePolicy } from "./core/policy.ts";
import { parsePatterns, type RedactPattern } from "./redaction/patterns.ts";

// The one place that reads the environment. Everything else is given what it needs.

/** What Drover's programs are set by. Durations in ms, sizes in bytes. */
export type Config = {
  /** Undefined: a private Redis where a command can have one, else an error. */
  redisUrl: string | undefined;
  prefix: string;
  concurrency: number;
  model: string;
  openaiApiKey: string | undefined;
  openaiBaseUrl: string | undefined;
  logLevel: LogLevel;
  payloadLimitBytes: number;
  stopGraceMs: number;
  /** What operators decide about tools; undefined: nothing. */
  policy: Policy | undefined;
  /** What is a secret too, beside the kinds that Drover knows; undefined: nothing. */
  redactPatterns: RedactPattern[] | undefined;
  /** Whether what is kept of a run is redacted too. */
  redactStored: boolean;
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

type SettingSpec = Setting & {
  key: Exclude<keyof Config, "otel">;
  schema: z.ZodType;
  /** The schema's own words say more than `expected`. */
  tellsMore?: boolean;
};

const redisSchemes = ["redis:", "rediss:", "unix:"];

function isUrl(text: string, schemes: string[]): boolean {
  const url = URL.parse(text);
  return url !== null && schemes.includes(url.protocol) && (url.protocol === "unix:" || url.hostname !== "");
}

function integer(min: number, max: number): z.ZodType {
  return z
    .string()
    .regex(/^\d{1,15}$/)
    .transform(Number)
    .pipe(z.int().min(min).max(max));
}

const specs: SettingSpec[] = [
  {
    key: "redisUrl",
    name: "REDIS_URL",
    description: "Redis or Valkey to work on. Without it `demo` and `dev` start a private one in `.drover/`.",
    defaultValue: undefined,
    expected: "a URL like redis://host:6379, rediss://user:password@host:6380/0 or unix:///path/redis.sock",
    secret: true,
    schema: z.string().refine((text) => text.startsWith("/") || isUrl(text, redisSchemes)),
  },
  {
    key: "prefix",
    name: "DROVER_PREFIX",
    description:
      "First part of every key in Redis; installations that share one Redis need different ones. The braces put all keys in one slot of a cluster.",
    defaultValue: "{drover}",
    expected: "1 to 64 letters, digits, '-', '_' or '.', in braces if it is to work on a Redis Cluster",
    secret: false,
    schema: z.string().regex(/^(?:\{[A-Za-z0-9._-]{1,64}\}|[A-Za-z0-9._-]{1,64})$/),
  },
  {
    key: "concurrency",
    name: "DROVER_CONCURRENCY",
    description: "Steps one worker process runs at a time.",
    defaultValue: "100",
    expected: "a whole number from 1 to 10000",
    secret: false,
    schema: integer(1, 10_000),
  },
  {
    key: "model",
    name: "DROVER_MODEL",
    description: "Model of the built-in agents (`demo`, `dev` without a file).",
    defaultValue: "gpt-5-mini",
    expected: "the name of a model, at most 256 characters",
    secret: false,
    schema: z.string().min(1).max(256),
  },
  {
    key: "openaiApiKey",
    name: "OPENAI_API_KEY",
    description: "Key for the model server.",
    defaultValue: undefined,
    expected: "a key without spaces or line breaks",
    secret: true,
    schema: z.string().regex(/^\S+$/),
  },
  {
    key: "openaiBaseUrl",
    name: "OPENAI_BASE_URL",
    description: "Any OpenAI-compatible server, for example `http://localhost:11434/v1`.",
    defaultValue: undefined,
    expected: "a URL like https://host/v1",
    secret: true,
    schema: z.string().refine((text) => isUrl(text, ["http:", "https:"])),
  },
  {
    key: "logLevel",
    name: "DROVER_LOG_LEVEL",
    description: "Least urgent log lines that are written; `debug` also shows stacks of errors.",
    defaultValue: "info",
    expected: `one of ${logLevels.join(", ")}`,
    secret: false,
    schema: z.enum(logLevels),
  },
  {
    key: "payloadLimitBytes",
    name: "DROVER_PAYLOAD_LIMIT",
    description: "Largest input of a run that is accepted, in bytes of JSON.",
    defaultValue: "1048576",
    expected: "a whole number of bytes from 1024 to 104857600",
    secret: false,
    schema: integer(1024, 104_857_600),
  },
  {
    key: "stopGraceMs",
    name: "DROVER_STOP_GRACE_MS",
    description: "How long a stopping worker lets its steps finish, in ms; what is left is taken by other workers.",
    defaultValue: "10000",
    expected: "a whole number of ms from 0 to 600000",
    secret: false,
    schema: integer(0, 600_000),
  },
  {
    key: "policy",
    name: "DROVER_POLICY",
    description:
      "What workers may do with tools, over what the code says: a list of rules in JSON, or the path of a file with one.",
    defaultValue: undefined,
    expected: "a list of rules in JSON, or the path of a file that holds one",
    secret: false,
    schema: z.string().transform(readPolicy),
    tellsMore: true,
  },
  {
    key: "redactPatterns",
    name: "DROVER_REDACT_PATTERNS",
    description:
      'What is a secret too and must not be shown: a list in JSON, as `[{"name":"customer","pattern":"CUST-[0-9]+"}]`.',
    defaultValue: undefined,
    expected: "a list of names and patterns in JSON",
    // A pattern may hold a secret itself.
    secret: true,
    schema: z.string().transform(readPatterns),
    tellsMore: true,
  },
  {
    key: "redactStored",
    name: "DROVER_REDACT_STORED",
    description: "`true`: input, answers and results are redacted before they are stored, too.",
    defaultValue: "false",
    expected: "true or false",
    secret: false,
    schema: z.enum(["true", "false"]).transform((value) => value === "true"),
  },
];

/** A policy from JSON text, or from the file that a path names. */
function readPolicy(value: string, context: z.core.$RefinementCtx): Policy {
  const refuse = (...problems: string[]): Policy => {
    for (const message of problems) context.issues.push({ code: "custom", message, input: value });
    return [];
  };
  const isText = /^[[{]/.test(value);
  const where = isText ? "" : `${value}: `;
  let json: unknown;
  try {
    // Editors may put a byte order mark in front.
    const text = isText ? value : readFileSync(value, "utf8").replace(/^\uFEFF/, "");
    json = JSON.parse(text);
    const twice = findRepeatedKey(text);
    if (twice !== undefined) return refuse(`${where}the field ${twice} stands twice in one rule: only one can hold`);
  } catch (error) {
    return refuse(`${where}expected a list of rules in JSON, received what cannot be read (${toError(error).message})`);
  }
  const parsed = parsePolicy(json);
  return parsed.ok ? parsed.policy : refuse(...parsed.problems.map((problem) => where + problem));
}

/** Patterns from JSON text. */
function readPatterns(value: string, context: z.core.$RefinementCtx): RedactPattern[] {
  const refuse = (message: string): void => void context.issues.push({ code: "custom", message, input: value });
  try {
    const json = JSON.parse(value) as RedactPattern[];
    const parsed = parsePatterns(json);
    if (parsed.ok) return json;
    for (const problem of parsed.problems) refuse(problem);
  } catch (error) {
    refuse(`expected a list of names and patterns in JSON, received what cannot be read (${toError(error).name})`);
  }
  return [];
}

/** All settings but `OTEL_*`, in the order in which documentation lists them. */
export const settings: readonly Setting[] = specs.map(({ name, description, defaultValue, expected, secret }) => ({
  name,
  description,
  defaultValue,
  expected,
  secret,
}));

/** The settings as a Markdown table, for the README. */
export function toSettingsTable(): string {
  const rows = settings.map((setting) => {
    const value = setting.defaultValue === undefined ? "" : `\`${setting.defaultValue}\``;
    return `| \`${setting.name}\` | ${value} | ${setting.description} |`;
  });
  const otel = "| `OTEL_*` | | The standard OpenTelemetry variables; without an endpoint nothing is exported. |";
  return ["| Variable | Default | Meaning |", "| --- | --- | --- |", ...rows, otel].join("\n");
}

/** What a value may be shown as: never a secret. */
function toReceived(spec: SettingSpec, value: string): string {
  return spec.secret ? `a value of ${value.length} characters (not shown)` : JSON.stringify(value.slice(0, 100));
}

/**
 * Reads the settings from an environment. An empty variable counts as not set.
 *
 * @throws DroverError "invalid" that names every bad setting at once, with what was expected and received.
 */
export function readConfig(env: NodeJS.ProcessEnv): Config {
  const problems: string[] = [];
  const values: Record<string, unknown> = {};
  for (const spec of specs) {
    const given = env[spec.name]?.trim() || undefined;
    const value = given ?? spec.defaultValue;
    if (value === undefined) {
      values[spec.key] = undefined;
      continue;
    }
    const parsed = spec.schema.safeParse(value);
    if (parsed.success) values[spec.key] = parsed.data;
    else if (spec.tellsMore) problems.push(...parsed.error.issues.map(({ message }) => `${spec.name}: ${message}`));
    else problems.push(`${spec.name}: expected ${spec.expected}, received ${toReceived(spec, value)}`);
  }
  if (problems.length > 0) {
    const many = problems.length === 1 ? "1 setting is" : `${problems.length} settings are`;
    throw new DroverError("invalid", `${many} wrong in the environment or .env:\n  ${problems.join("\n  ")}`);
  }
  const otel = Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => entry[0].startsWith("OTEL_") && !!entry[1]),
  );
  // Every key of `specs` was parsed by its schema above.
  return { ...(values as Omit<Config, "otel">), otel };
}

/**
 * Adds what `.env` in `dir` says to the process's environment, which wins where both have a value, and reads it.
 *
 * @throws DroverError "invalid" as `readConfig`, or when `.env` cannot be read.
 */
export function loadConfig(dir: string = process.cwd()): Config {
  const path = `${dir}/.env`;
  try {
    process.loadEnvFile(path);
  } catch (error) {
    const { code, message } = toError(error) as NodeJS.ErrnoException;
    if (code !== "ENOENT") {
      throw new DroverError("invalid", `${path} cannot be read (${message}): make it a readable file or remove it`);
    }
  }
  return readConfig(process.env);
}
