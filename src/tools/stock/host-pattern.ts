/** Hosts that may be reached: `api.example.com`, `*.example.com` (below it, not itself), `*`; with a port if not 80 or 443. */
const patternShape = /^(\*|(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(?::(\d{1,5}))?$/;

export function isHostPattern(pattern: string): boolean {
  return patternShape.test(pattern.toLowerCase());
}

/** A URL's host as it is compared and connected to: lower case, without brackets and without the final dot. */
export function hostOf(url: URL): string {
  return bare(url.hostname.toLowerCase()).replace(/\.$/, "");
}

function bare(host: string): string {
  return host.replace(/^\[|\]$/g, "");
}

/** Whether one of the patterns lets the URL's host and port pass. */
export function isAllowedHost(url: URL, patterns: readonly string[]): boolean {
  const host = hostOf(url);
  const port = url.port || (url.protocol === "https:" ? "443" : "80");
  return patterns.some((pattern) => {
    const [, name = "", wantedPort] = patternShape.exec(pattern.toLowerCase()) ?? [];
    return isPort(port, wantedPort) && isName(host, bare(name));
  });
}

function isPort(port: string, wanted: string | undefined): boolean {
  return wanted === undefined ? port === "80" || port === "443" : port === wanted;
}

function isName(host: string, wanted: string): boolean {
  if (wanted === "*") return true;
  if (!wanted.startsWith("*.")) return wanted !== "" && host === wanted;
  const suffix = wanted.slice(1);
  return host.endsWith(suffix) && host.length > suffix.length;
}
