import type { KnownSecret } from "../core/redact-words.ts";
import { splitHosts } from "../redis-url.ts";

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
    ...toKnown("password", urls.flatMap((name) => passwordsOf(env[name] ?? "")).flatMap(writtenAndMeant)),
    ...toKnown("header", headers.flatMap((name) => headerValues(env[name])).flatMap(writtenAndMeant)),
  ];
}

/** In an address: a server's, and that of the sentinels that know where it is. */
function passwordsOf(text: string): string[] {
  const url = splitHosts(text)?.url ?? URL.parse(text);
  return [url?.password ?? "", url?.searchParams.get("sentinelPassword") ?? ""];
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
