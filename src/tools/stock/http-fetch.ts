import { TextDecoder } from "node:util";
import { z } from "zod";
import { PermanentError, RetryableError } from "../../core/errors.ts";
import { defineTool, type Tool } from "../define-tool.ts";
import { cleanText, reasonOf } from "../messages.ts";
import { addressesOf, type Resolve, resolveBySystem } from "./addresses.ts";
import { hostOf, isAllowedHost, isHostPattern } from "./host-pattern.ts";
import { type Answer, exchange } from "./http-exchange.ts";
import { parseOptions } from "./options.ts";

const methodNames = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] as const;
type Method = (typeof methodNames)[number];

const optionsSchema = z.strictObject({
  allowHosts: z
    .array(z.string().refine(isHostPattern, "expected a host such as api.example.com or *.example.com"))
    .min(1),
  methods: z.array(z.enum(methodNames)).min(1).default(["GET"]),
  maxBytes: z
    .int()
    .min(1)
    .max(1024 * 1024)
    .default(256 * 1024),
  timeoutMs: z.int().min(1).max(3_600_000).default(30_000),
  allowPrivate: z.boolean().default(false),
  resolve: z
    .custom<Resolve>((value) => typeof value === "function", "expected a function")
    .default(() => resolveBySystem),
});

/**
 * Options of `httpFetch`.
 * - `allowHosts`: `api.example.com`, `*.example.com` (below it), `*`; with `:port` where it is not 80 or 443;
 * - `methods`: default GET only; with any but GET and HEAD the tool is a write;
 * - `maxBytes`: of a body, default 256 KiB; `timeoutMs`: redirects included, default 30,000;
 * - `allowPrivate`: lets it reach addresses that are not on the public internet; default false;
 * - `resolve`: finds a name's addresses, default the system's way.
 */
export type HttpFetchOptions = {
  allowHosts: string[];
  methods?: Method[];
  maxBytes?: number;
  timeoutMs?: number;
  allowPrivate?: boolean;
  resolve?: Resolve;
};

type Settings = z.output<typeof optionsSchema>;
type Ask = { url: string; method: Method; body?: string | undefined };

const maxRedirects = 5;

/**
 * Fetches from listed hosts. Addresses are checked after the name was resolved, and the connection goes to the checked
 * address; every redirect is checked anew.
 */
export function httpFetch(options: HttpFetchOptions): Tool {
  const settings = parseOptions("httpFetch", optionsSchema, options);
  const { allowHosts, methods, maxBytes, timeoutMs } = settings;
  return defineTool({
    name: "http_fetch",
    description: `Sends an HTTP request and returns status, type and body, at most ${maxBytes} bytes of it.
url: full address on one of these hosts: ${allowHosts.join(", ")}. method: one of ${methods.join(", ")}. body: text to
send with it. Format: http or https URL without user and password. Example: {"url":"https://${exampleHost(allowHosts)}/"}`,
    parameters: z.object({
      url: z.string().max(4_096).describe("The address, e.g. https://example.com/page"),
      method: z
        .enum(methods)
        .default(methods[0] ?? "GET")
        .describe(`HTTP method, e.g. ${methods[0]}`),
      ...(methods.every(isSafe) ? {} : { body: z.string().optional().describe("Text to send, e.g. JSON") }),
    }),
    effect: methods.every(isSafe) ? "read" : "write",
    timeoutMs,
    execute: (ask, { signal }) => fetchAll(settings, ask as Ask, signal),
  });
}

function exampleHost(patterns: readonly string[]): string {
  return (patterns[0] ?? "").replace(/^\*\./, "www.").replace(/^\*/, "example.com");
}

function isSafe(method: Method): boolean {
  return method === "GET" || method === "HEAD";
}

async function fetchAll(settings: Settings, ask: Ask, signal: AbortSignal): Promise<string> {
  let { method, body } = ask;
  let url = parseUrl(ask.url);
  for (let hop = 0; ; hop++) {
    const answer = await fetchOne(settings, { url, method, body, signal });
    const location = answer.header("location");
    if (!isRedirect(answer.status) || location === undefined) return describeAnswer(answer, url, settings.maxBytes);
    if (hop >= maxRedirects) throw new PermanentError(`more than ${maxRedirects} redirects, the last to ${url.host}`);
    url = parseUrl(location, url);
    if (answer.status === 303 || (answer.status < 303 && method === "POST")) {
      method = method === "HEAD" ? "HEAD" : "GET";
      body = undefined;
    }
  }
}

function isRedirect(status: number): boolean {
  return [301, 302, 303, 307, 308].includes(status);
}

function parseUrl(text: string, base?: URL): URL {
  const url = URL.parse(text, base?.href);
  if (!url || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw new PermanentError("this is no http or https URL; give a full one such as https://example.com/page");
  }
  if (url.username !== "" || url.password !== "") throw new PermanentError("the URL holds a user or a password");
  return url;
}

type Hop = { url: URL; method: Method; body: string | undefined; signal: AbortSignal };

async function fetchOne(settings: Settings, hop: Hop): Promise<Answer> {
  const { url, method, signal } = hop;
  if (!isAllowedHost(url, settings.allowHosts)) {
    throw new PermanentError(`the host ${url.host} is not allowed; allowed are ${settings.allowHosts.join(", ")}`);
  }
  const addresses = await resolveChecked(settings, hostOf(url));
  let answer: Answer;
  try {
    answer = await exchange({ ...hop, addresses, maxBytes: settings.maxBytes });
  } catch (error) {
    if (signal.aborted) throw error;
    if (isSafe(method) || isNotConnected(error)) throw new RetryableError(`${url.host}: ${reasonOf(error)}`);
    throw error;
  }
  // 429 says that nothing was done. The others say it only of a request that does nothing anyway.
  if (answer.status === 429 || (isSafe(method) && [500, 502, 503, 504].includes(answer.status))) {
    const delayMs = retryAfterMs(answer.header("retry-after"));
    const message = `${url.host} answered with HTTP ${answer.status}`;
    throw new RetryableError(message, delayMs === undefined ? {} : { delayMs });
  }
  return answer;
}

async function resolveChecked(settings: Settings, host: string): Promise<Awaited<ReturnType<Resolve>>> {
  try {
    return await addressesOf(host, settings.resolve, settings.allowPrivate);
  } catch (error) {
    if (error instanceof PermanentError) throw error;
    const reason = `the host ${host} cannot be resolved: ${reasonOf(error)}`;
    throw reason.includes("ENOTFOUND") ? new PermanentError(reason) : new RetryableError(reason);
  }
}

function isNotConnected(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ECONNREFUSED";
}

/** Seconds only; a date would need the server's clock. */
function retryAfterMs(value: string | undefined): number | undefined {
  return value !== undefined && /^\d{1,6}$/.test(value) ? Number(value) * 1_000 : undefined;
}

function describeAnswer(answer: Answer, url: URL, maxBytes: number): string {
  const type = answer.header("content-type") ?? "of unknown type";
  const head = `HTTP ${answer.status} ${cleanText(type).slice(0, 200)} from ${url.href}`;
  const cut = answer.cut ? `\n[cut: only the first ${maxBytes} bytes are shown]` : "";
  return `${head}\n\n${bodyText(answer, type)}${cut}`;
}

function bodyText(answer: Answer, type: string): string {
  const encoding = answer.header("content-encoding") ?? "identity";
  const size = `${answer.bytes.length}${answer.cut ? " or more" : ""} bytes`;
  if (encoding !== "identity") return `[${size} encoded as ${cleanText(encoding).slice(0, 40)}, not shown]`;
  if (!/^text\/|json|xml|javascript|yaml|csv|form-urlencoded|of unknown type/i.test(type) || answer.bytes.includes(0)) {
    return `[${size} that are no text, not shown]`;
  }
  // A stream decoder leaves out a character that was cut in the middle.
  return decoderFor(type).decode(answer.bytes, { stream: answer.cut });
}

function decoderFor(type: string): TextDecoder {
  const charset = /charset="?([\w-]{1,40})/i.exec(type)?.[1] ?? "utf-8";
  try {
    return new TextDecoder(charset);
  } catch {
    return new TextDecoder();
  }
}
