import type { KnownSecret } from "../core/redact-words.ts";

/** Passwords (and users that are none but tokens) of URLs, as written and as meant. What is no URL has none. */
export function secretsOfUrls(urls: readonly (string | undefined)[]): KnownSecret[] {
  return urls.flatMap((text) => {
    const url = text === undefined ? null : URL.parse(text);
    if (!url?.password) return [];
    return toKnown("password", [url.password, decode(url.password)]);
  });
}

/** Values of headers that name a secret, and of settings that are one. */
export function toKnown(kind: string, values: readonly (string | undefined)[]): KnownSecret[] {
  return values.flatMap((value) => (value ? [{ kind, value }] : []));
}

/** Values of `OTEL_EXPORTER_OTLP_HEADERS` and the like: `name=value,name=value`, encoded as in URLs. */
export function secretsOfHeaders(lists: readonly (string | undefined)[]): KnownSecret[] {
  const values = lists.flatMap((list) =>
    (list ?? "").split(",").map((pair) => pair.split("=").slice(1).join("=").trim()),
  );
  return toKnown(
    "header",
    values.flatMap((value) => [value, decode(value)]),
  );
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
