import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Tool } from "../../../src/tools/define-tool.ts";
import type { Address } from "../../../src/tools/stock/addresses.ts";
import { type HttpFetchOptions, httpFetch } from "../../../src/tools/stock/http-fetch.ts";
import { callTool, textFrom } from "../request.ts";

type Route = (request: IncomingMessage, response: ServerResponse) => void;

let server: Server;
let port: number;
let routes: Record<string, Route>;
let seen: string[];

beforeEach(async () => {
  routes = {};
  seen = [];
  server = createServer((request, response) => {
    seen.push(`${request.method} ${request.headers.host}${request.url}`);
    const route = routes[request.url ?? ""] ?? ((_request, answer) => answer.writeHead(404).end("none"));
    route(request, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  port = (server.address() as AddressInfo).port;
});
afterEach(async () => {
  server.closeAllConnections();
  server.close();
  await once(server, "close");
});

const loopback: Address = { address: "127.0.0.1", family: 4 };

/** A tool that reaches the test's server under any name. */
function localTool(options: Partial<HttpFetchOptions> = {}): Tool {
  const resolve = (): Promise<Address[]> => Promise.resolve([loopback]);
  return httpFetch({ allowHosts: [`*:${port}`], allowPrivate: true, resolve, ...options });
}

function urlOf(path: string, host = "site.test"): string {
  return `http://${host}:${port}${path}`;
}

function text(body: string, type = "text/plain"): Route {
  return (_request, response) => response.writeHead(200, { "content-type": type }).end(body);
}

function redirect(location: string, status = 302): Route {
  return (_request, response) => response.writeHead(status, { location }).end();
}

describe("http_fetch", () => {
  test("returns status, type and body", async () => {
    routes["/"] = text("hello", "text/plain; charset=utf-8");
    expect(await textFrom(localTool(), { url: urlOf("/") })).toBe(
      `HTTP 200 text/plain; charset=utf-8 from ${urlOf("/")}\n\nhello`,
    );
    expect(await textFrom(localTool(), { url: urlOf("/gone") })).toContain("HTTP 404");
  });

  test("decodes by charset, shows no binary and nothing encoded", async () => {
    routes["/latin"] = (_q, response) =>
      response.writeHead(200, { "content-type": "text/plain; charset=iso-8859-1" }).end(Buffer.from([0xe4]));
    routes["/png"] = (_q, response) => response.writeHead(200, { "content-type": "image/png" }).end(Buffer.alloc(5));
    routes["/gzip"] = (_q, response) =>
      response.writeHead(200, { "content-type": "text/plain", "content-encoding": "gzip" }).end(gzipSync("x"));
    expect(await textFrom(localTool(), { url: urlOf("/latin") })).toMatch(/\n\nä$/);
    expect(await textFrom(localTool(), { url: urlOf("/png") })).toContain("[5 bytes that are no text, not shown]");
    expect(await textFrom(localTool(), { url: urlOf("/gzip") })).toContain("encoded as gzip, not shown");
  });

  test("cuts a body without end, between characters", async () => {
    routes["/endless"] = (request, response) => {
      response.writeHead(200, { "content-type": "text/plain" });
      const more = (): void => {
        while (!request.socket.destroyed && response.write("€".repeat(10_000)));
        response.once("drain", more);
      };
      more();
    };
    const shown = await textFrom(localTool({ maxBytes: 100 }), { url: urlOf("/endless") });
    expect(shown.split("\n\n")[1]).toBe(`${"€".repeat(33)}\n[cut: only the first 100 bytes are shown]`);
  });

  test("sends a body with methods that are allowed", async () => {
    let received = "";
    routes["/items"] = (request, response) => {
      request.on("data", (chunk) => {
        received += `${request.headers["content-type"]} ${chunk}`;
      });
      request.on("end", () => response.writeHead(201, { "content-type": "text/plain" }).end("made"));
    };
    const tool = localTool({ methods: ["GET", "POST"] });
    expect(tool.effect).toBe("write");
    expect(localTool({ methods: ["GET", "HEAD"] }).effect).toBe("read");
    const shown = await textFrom(tool, { url: urlOf("/items"), method: "POST", body: '{"a":1}' });
    expect(shown).toContain("HTTP 201");
    expect(received).toBe('application/json {"a":1}');
    expect(await callTool(tool, { url: urlOf("/items"), method: "DELETE" })).toMatchObject({ type: "failed" });
  });
});

describe("where http_fetch may go", () => {
  test.each([
    "http://127.0.0.1/",
    "http://127.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0177.0.0.1/",
    "http://0/",
    "http://[::1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[fd00::1]/",
    "http://169.254.169.254/latest/meta-data/",
    "http://10.0.0.1/",
    "http://192.168.0.1/",
    "http://100.64.0.1/",
    "http://224.0.0.1/",
    "http://localhost/",
    "http://localhost./",
    "http://LOCALHOST/",
  ])("refuses %s though every host is allowed", async (url) => {
    const outcome = await callTool(httpFetch({ allowHosts: ["*"] }), { url });
    const message = expect.stringContaining("not on the public internet");
    expect(outcome).toMatchObject({ type: "failed", message });
  });

  test.each([
    ["file:///etc/passwd", "no http or https URL"],
    ["ftp://example.com/", "no http or https URL"],
    ["gopher://example.com/", "no http or https URL"],
    ["data:text/plain,x", "no http or https URL"],
    ["example.com", "no http or https URL"],
    ["http://user:pass@example.com/", "user or a password"],
    ["https://example.com@evil.org/", "user or a password"],
    ["https://evil.org/", "not allowed"],
    ["https://example.com.evil.org/", "not allowed"],
    ["https://example.com:22/", "not allowed"],
  ])("refuses %s", async (url, part) => {
    const resolve = (): Promise<Address[]> => Promise.reject(new Error("resolved"));
    const outcome = await callTool(httpFetch({ allowHosts: ["example.com"], resolve }), { url });
    expect(outcome).toMatchObject({ type: "failed", message: expect.stringContaining(part) });
  });

  test("a name that resolves to a private address is refused", async () => {
    const outcome = await callTool(localTool({ allowPrivate: false }), { url: urlOf("/") });
    expect(outcome).toMatchObject({ type: "failed", message: expect.stringContaining("not on the public internet") });
    expect(seen).toEqual([]);
  });

  test("the address that was checked is the one connected to: a name is resolved once", async () => {
    routes["/"] = text("here");
    const answers: Address[][] = [[loopback], [{ address: "127.0.0.2", family: 4 }]];
    let asked = 0;
    const resolve = (): Promise<Address[]> => Promise.resolve(answers[asked++] ?? []);
    expect(await textFrom(localTool({ resolve }), { url: urlOf("/", "rebind.test") })).toContain("here");
    expect(asked).toBe(1);
    expect(seen).toEqual([`GET rebind.test:${port}/`]);
  });

  test("a redirect to a host that is not allowed is refused before anything is sent there", async () => {
    routes["/"] = redirect(`http://internal.test:${port}/secret`);
    const outcome = await callTool(localTool({ allowHosts: [`site.test:${port}`] }), { url: urlOf("/") });
    expect(outcome).toMatchObject({ type: "failed", message: expect.stringContaining("internal.test") });
    expect(seen).toEqual([`GET site.test:${port}/`]);
  });

  test("each hop is resolved and checked anew", async () => {
    routes["/"] = redirect(urlOf("/b", "second.test"));
    const resolve = (host: string): Promise<Address[]> =>
      host === "site.test" ? Promise.resolve([loopback]) : Promise.reject(new Error(`asked for ${host}`));
    const outcome = await callTool(localTool({ resolve }), { url: urlOf("/") });
    expect(JSON.stringify(outcome)).toContain("asked for second.test");
  });

  test.each(["file:///etc/passwd", "http://a:b@site.test/", "javascript:alert(1)"])(
    "a redirect to %s is refused",
    async (location) => {
      routes["/"] = redirect(location);
      expect(await callTool(localTool(), { url: urlOf("/") })).toMatchObject({ type: "failed" });
    },
  );

  test("redirects are followed, but not for ever", async () => {
    routes["/a"] = redirect("/b");
    routes["/b"] = text("there");
    routes["/loop"] = redirect("/loop");
    expect(await textFrom(localTool(), { url: urlOf("/a") })).toContain(`from ${urlOf("/b")}\n\nthere`);
    const outcome = await callTool(localTool(), { url: urlOf("/loop") });
    expect(outcome).toMatchObject({ type: "failed", message: expect.stringContaining("more than 5 redirects") });
    expect(seen.filter((line) => line.endsWith("/loop"))).toHaveLength(6);
  });

  test.each([
    [302, "GET"],
    [303, "GET"],
    [307, "POST"],
    [308, "POST"],
  ])("after %i a POST goes on as %s", async (status, method) => {
    routes["/a"] = redirect("/b", status);
    routes["/b"] = text("ok");
    await textFrom(localTool({ methods: ["POST"] }), { url: urlOf("/a"), body: "x" });
    expect(seen[1]).toBe(`${method} site.test:${port}/b`);
  });
});

describe("trouble with http_fetch", () => {
  function answering(status: number, headers: Record<string, string> = {}): Route {
    return (_request, response) => response.writeHead(status, headers).end("trouble");
  }

  test("429 and 5xx of a read are tried again, with the server's wait", async () => {
    routes["/busy"] = answering(429, { "retry-after": "3" });
    routes["/down"] = answering(503);
    routes["/date"] = answering(503, { "retry-after": "Fri, 31 Dec 1999 23:59:59 GMT" });
    expect(await callTool(localTool(), { url: urlOf("/busy") })).toMatchObject({ type: "retry", delayMs: 3_000 });
    for (const path of ["/down", "/date"]) {
      const outcome = await callTool(localTool(), { url: urlOf(path) });
      expect(outcome).toEqual({ type: "retry", message: `site.test:${port} answered with HTTP 503` });
    }
  });

  test("a write's 5xx is for the model to read, its lost connection is an unknown outcome", async () => {
    routes["/down"] = answering(503);
    routes["/cut"] = (request) => request.socket.destroy();
    const tool = localTool({ methods: ["POST"] });
    expect(await textFrom(tool, { url: urlOf("/down") })).toContain("HTTP 503");
    expect(await callTool(tool, { url: urlOf("/cut") })).toMatchObject({ type: "unknown", code: "threw" });
    expect(await callTool(localTool(), { url: urlOf("/cut") })).toMatchObject({ type: "retry" });
  });

  test("a refused connection is tried again: nothing happened", async () => {
    const tool = localTool({ methods: ["POST"], allowHosts: ["*:1"] });
    const outcome = await callTool(tool, { url: "http://site.test:1/" });
    expect(outcome).toMatchObject({ type: "retry", message: expect.stringContaining("ECONNREFUSED") });
  });

  test("a name that is not there fails, one that cannot be resolved now is tried again", async () => {
    const failing = (code: string) => (): Promise<Address[]> =>
      Promise.reject(Object.assign(new Error("dns"), { code }));
    const gone = localTool({ resolve: failing("ENOTFOUND") });
    expect(await callTool(gone, { url: urlOf("/") })).toMatchObject({ type: "failed" });
    const later = localTool({ resolve: failing("EAI_AGAIN") });
    expect(await callTool(later, { url: urlOf("/") })).toMatchObject({ type: "retry" });
  });

  test("a server that says nothing is left at the timeout, and its connection is closed", async () => {
    const closed = Promise.withResolvers<void>();
    routes["/slow"] = (request) => {
      request.socket.once("close", () => closed.resolve());
    };
    const outcome = await callTool(localTool({ timeoutMs: 100 }), { url: urlOf("/slow") });
    expect(outcome).toMatchObject({ type: "failed", code: "timeout" });
    await closed.promise;
  });

  test("options are checked", () => {
    expect(() => httpFetch({ allowHosts: [] })).toThrow("allowHosts");
    expect(() => httpFetch({ allowHosts: ["https://x"] })).toThrow("expected a host");
  });
});
