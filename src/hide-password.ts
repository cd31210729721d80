import { splitHosts } from "./redis-url.ts";

/** A URL for people and logs: user and password hidden, nothing else changed. */
export function hidePassword(url: string): string {
  if (url.startsWith("/")) return url;
  const many = splitHosts(url);
  const parsed = many?.url ?? URL.parse(url);
  if (parsed === null) return "(not a URL)";
  if (parsed.protocol === "unix:") return url;
  const scheme = many ? `${parsed.protocol.slice(0, -1)}+${many.kind}:` : parsed.protocol;
  const auth = parsed.password ? `${parsed.username}:***@` : parsed.username ? `${parsed.username}@` : "";
  const hosts = many ? many.hosts.map(({ host, port }) => `${host}:${port}`).join(",") : parsed.host;
  const query = parsed.search ? "?***" : "";
  return `${scheme}//${auth}${hosts}${parsed.pathname === "/" ? "" : parsed.pathname}${query}`;
}
