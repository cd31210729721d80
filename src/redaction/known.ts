import type { KnownSecret } from "../core/redact-words.ts";

/** Values that are a secret, with what they are; those that are not set are left out. */
export function toKnown(kind: string, values: readonly (string | undefined)[]): KnownSecret[] {
  return values.flatMap((value) => (value ? [{ kind, value }] : []));
}

/** Secrets among Drover's own settings: keys, and passwords in addresses and headers, as written and as meant. */
export function secretsOfEnvironment(env: Record<string, string | undefined>): KnownSecret[] {
  const urls = ["REDIS_URL", "OPENAI_BASE_URL", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
  const headers = ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"];
  return [
    ...toKnown("api key", [env.OPENAI_API_KEY?.trim()]),
    ...toKnown(
      "password",
      urls.flatMap((name) => writtenAndMeant(URL.parse(env[name] ?? "")?.password)),
    ),
    ...toKnown("header", headers.flatMap((name) => headerValues(env[name])).flatMap(writtenAndMeant)),
  ];
}

/** Of `name=value,name=value`. */
function headerValues(list: string | undefined): string[] {
  return (list ?? "").split(",").map((pair) => pair.slice(pair.indexOf("=") + 1).trim());
}

function writtenAndMeant(text: string | undefined): string[] {
  if (!text) return [];
  try {
    return [text, decodeURIComponent(text)];
  } catch {
    return [text];
  }
}
