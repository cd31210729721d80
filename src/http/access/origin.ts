import type { HttpContext } from "../types.ts";

// Whom a browser speaks for. Other programs send none of these headers, and are not what cross-site attacks are made of.

const safeMethods: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"]);

export function isSafe(context: HttpContext): boolean {
  return safeMethods.has(context.req.method);
}

/** Where a request says it was sent, as in its URL: host and port in lower case. */
function hostOf(context: HttpContext): string {
  return (context.req.header("host") ?? new URL(context.req.url).host).toLowerCase();
}

/**
 * Whether a browser says that this request comes from a page of ours, or no browser sent it. A proxy may rewrite Host, so
 * what a browser says itself (Sec-Fetch-Site) goes before a comparison with it.
 */
export function isOwnOrigin(context: HttpContext): boolean {
  const site = context.req.header("sec-fetch-site");
  if (site !== undefined) return site === "same-origin" || site === "none";
  return isOriginHost(context);
}

function isOriginHost(context: HttpContext): boolean {
  const origin = context.req.header("origin");
  return origin === undefined || URL.parse(origin)?.host === hostOf(context);
}

/** What proxies and content networks say of whom they speak for. */
const proxyHeader =
  /^(?:forwarded|via|x-(?:forwarded|original|envoy)-.+|(?:x-(?:real|client|cluster-client)|true-client|cf-connecting|fastly-client)-ip|cdn-loop)$/;
const loopbackHost = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/;

/**
 * Whether a server without keys may serve this: it must be called by a name of loopback (else a name that a stranger
 * controls was pointed at this machine: DNS rebinding), not through a proxy, and not by a page of somebody else's. A link
 * from elsewhere may be followed, since that only shows something.
 */
export function isLocalRequest(context: HttpContext): boolean {
  const { req } = context;
  if (!loopbackHost.test(hostOf(context))) return false;
  if (Object.keys(req.header()).some((name) => proxyHeader.test(name))) return false;
  if (!isOriginHost(context)) return false;
  const isLink =
    isSafe(context) && req.header("sec-fetch-mode") === "navigate" && req.header("sec-fetch-dest") === "document";
  return isLink || isOwnOrigin(context);
}

/** A path of ours to go to after signing in; anything else becomes the first page. */
export function toLocalPath(next: string | undefined): string {
  if (next === undefined || !next.startsWith("/") || next.length > 2_000) return "/";
  // The parser that browsers follow too knows what backslashes, tabs and double slashes come to.
  const base = "http://drover.invalid";
  const url = URL.parse(next, base);
  if (url === null || url.origin !== base || /^\/(?:login|logout)\b/.test(url.pathname)) return "/";
  // `/.//host` is a path to the parser, and `//host` in a header would be a host.
  return /^\/[/\\]/.test(url.pathname) ? "/" : url.pathname + url.search;
}
