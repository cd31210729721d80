import type { Config, Setting, SettingSpec } from "./config/setting.ts";
import { specs } from "./config/settings.ts";
import { DroverError, toError } from "./core/errors.ts";

export type { Config, Setting } from "./config/setting.ts";

// The one place that reads the environment. Everything else is given what it needs.

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

/** A file for `.env` in which every setting is described and commented out. */
export function toEnvExample(): string {
  const head = [
    "# Copy to .env and remove the # of what you set. Everything is optional: without REDIS_URL, `drover dev` and",
    "# `drover demo` start a private Redis.",
  ];
  const blocks = settings.map(({ name, description, defaultValue, expected }) => [
    ...wrap(description),
    ...(defaultValue === undefined ? wrap(`Expected: ${expected}.`) : []),
    `# ${name}=${defaultValue ?? ""}`,
  ]);
  const otel = [
    ...wrap("The standard OpenTelemetry variables: traces and metrics go nowhere unless an endpoint is named."),
    "# OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318",
  ];
  return `${[head, ...blocks, otel].map((lines) => lines.join("\n")).join("\n\n")}\n`;
}

/** A text as lines of comment. */
function wrap(text: string): string[] {
  const lines: string[] = [];
  let line = "#";
  for (const word of text.split(" ")) {
    if (`${line} ${word}`.length > 100) {
      lines.push(line);
      line = "#";
    }
    line = `${line} ${word}`;
  }
  return [...lines, line];
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
