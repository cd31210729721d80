/** A URL for people and logs: user and password hidden, nothing else changed. */
export function hidePassword(url: string): string {
  if (url.startsWith("/")) return url;
  const parsed = URL.parse(url);
  if (parsed === null) return "(not a URL)";
  if (parsed.protocol === "unix:") return url;
  const auth = parsed.password ? `${parsed.username}:***@` : parsed.username ? `${parsed.username}@` : "";
  const query = parsed.search ? "?***" : "";
  return `${parsed.protocol}//${auth}${parsed.host}${parsed.pathname === "/" ? "" : parsed.pathname}${query}`;
}
