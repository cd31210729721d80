// Requests that mean harm, against the real server process over sockets. Each row is answered with the right status,
// without a word of the server's inside, and changes nothing that is kept. Catches: what a library tidies away before
// it is checked, and checks that are on one address and not on another.
import { beforeAll, describe, expect, test } from "vitest";
import { type Document, fieldRows, pathRows, queryRows } from "../support/hostile/openapi-rows.ts";
import { isProblem, type Row } from "../support/hostile/rows.ts";
import { bodyLimit, type Site, timeoutMs } from "../support/hostile/site.ts";
import { useAttack } from "../support/hostile/use-attack.ts";
import { v1FieldRows } from "../support/hostile/v1-rows.ts";
import { type RawAnswer, sendRaw, sendSlowly, toRequestText } from "../support/raw-http.ts";

const attack = useAttack();
const { expectRows, values } = attack;
let site: Site;
let document: Document;
beforeAll(() => {
  ({ site, document } = attack);
});
const json = "Content-Type: application/json";

describe("bodies", () => {
  const paths = ["/runs", "/v1/responses", "/v1/chat/completions"];

  test("too large, as declared and in chunks", async () => {
    const chunk = `${(32_768).toString(16)}\r\n${"x".repeat(32_768)}\r\n`;
    const chunked = (path: string, more: readonly string[]): string =>
      `POST ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n${more.join("\r\n")}\r\n\r\n${chunk.repeat(4)}0\r\n\r\n`;
    await expectRows(
      paths.flatMap((path): Row[] => [
        {
          what: `POST ${path}, ${bodyLimit + 1} bytes`,
          send: {
            method: "POST",
            path,
            headers: [site.auth.admin, json],
            body: JSON.stringify({ agent: "echo", input: "x".repeat(bodyLimit) }),
          },
          status: [413],
          also: isProblem,
        },
        // It says so before it has them, and the server does not wait for them.
        {
          what: `POST ${path}, a terabyte by its header`,
          send: `POST ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${site.auth.admin}\r\n${json}\r\nContent-Length: 1099511627776\r\n\r\n{`,
          status: [413],
          also: isProblem,
        },
        {
          what: `POST ${path}, chunks beyond the limit`,
          send: chunked(path, [site.auth.admin, json]),
          status: [413],
          also: isProblem,
        },
        {
          what: `POST ${path}, chunks beyond the limit, no key`,
          send: chunked(path, [json]),
          status: [401],
          also: isProblem,
        },
      ]),
    );
  });

  test("that are no JSON of the right kind", async () => {
    const bodies: Record<string, string> = {
      nothing: "",
      "cut off": '{"agent":"echo","input":"x"',
      "a bare word": "echo",
      "single quotes": "{'agent':'echo','input':'x'}",
      "a trailing comma": '{"agent":"echo","input":"x",}',
      "a comment": '{"agent":"echo",/* */"input":"x"}',
      "two values": '{"agent":"echo","input":"x"}{"agent":"echo","input":"x"}',
      NaN: '{"agent":"echo","input":NaN}',
      "a list": '[{"agent":"echo","input":"x"}]',
      null: "null",
      "a number": "42",
      "a text": '"echo"',
      "a control character": '{"agent":"echo","input":"a\u0000b"}',
      "an unknown field": '{"agent":"echo","input":"x","isAdmin":true}',
      "invalid UTF-8": '{"agent":"echo","input":"\u00ff\u00fe\u00c0\u0080"}\u0080',
      "UTF-16": Buffer.from('{"agent":"echo","input":"x"}', "utf16le").toString("latin1"),
      "deep lists": `{"agent":"echo","input":${"[".repeat(30_000)}${"]".repeat(30_000)}}`,
      "deep objects": `{"agent":"echo","input":"x","metadata":${'{"a":'.repeat(9_000)}1${"}".repeat(9_000)}}`,
      "deep and cut off": "[".repeat(60_000),
      "__proto__ with agent": '{"__proto__":{"agent":"echo","input":"x"}}',
      "__proto__ in it": '{"agent":"echo","input":"x","__proto__":{"tenant":"beta"}}',
      "constructor.prototype": '{"agent":"echo","input":"x","constructor":{"prototype":{"scopes":["admin"]}}}',
      "limits with __proto__": '{"agent":"echo","input":"x","limits":{"__proto__":{"maxTurns":1},"maxTurns":-1}}',
      "a large number": '{"agent":"echo","input":"x","limits":{"maxTurns":1e400}}',
      "a long agent": JSON.stringify({ agent: "a".repeat(10_000), input: "x" }),
      "an id of another key": '{"agent":"echo","input":"x","runId":"a:channel"}',
      "an id without a letter": '{"agent":"echo","input":"x","runId":"12345"}',
    };
    await expectRows(
      Object.entries(bodies).flatMap(([what, body]) =>
        ["/runs", "/v1/responses"].map(
          (path): Row => ({
            what: `POST ${path} with ${what}`,
            send: { method: "POST", path, headers: [site.auth.admin, json], body },
            status: [400, 404, 422],
            also: isProblem,
          }),
        ),
      ),
    );
  });

  test("of another type than JSON", async () => {
    const types = [
      "text/plain",
      "application/xml",
      "multipart/form-data; boundary=x",
      "application/x-www-form-urlencoded",
      "a/b/c",
      "",
    ];
    await expectRows(
      types.flatMap((type) =>
        ["/runs", `/runs/${site.runs.none.waiting}/input`].map(
          (path): Row => ({
            what: `POST ${path} as ${type}`,
            send: {
              method: "POST",
              path,
              headers: [site.auth.admin, `Content-Type: ${type}`],
              body: '{"agent":"echo","input":"x"}',
            },
            status: [400, 415],
            also: isProblem,
          }),
        ),
      ),
    );
  });
});

test("wrong types in each field of each address", async () => {
  const rows = fieldRows(document, values(site.runs.none.waiting), site.auth.admin);
  expect(rows.length).toBeGreaterThan(40);
  await expectRows(rows);
});

test("wrong values in each field for OpenAI's clients", async () => {
  await expectRows(v1FieldRows(site.auth.admin));
});

test("wrong values in each parameter of a query", async () => {
  const rows = queryRows(document, values(site.runs.none.waiting), site.auth.admin);
  expect(rows.length).toBeGreaterThan(30);
  await expectRows(rows);
});

test("ids that none can have, in each path", async () => {
  await expectRows(pathRows(document, site.auth.admin));
});

test("paths that lead elsewhere", async () => {
  const targets = [
    "/../../../../etc/passwd",
    "/assets/../../../package.json",
    "/assets/..%2f..%2f..%2fpackage.json",
    "/assets/%2e%2e/%2e%2e/src/config.ts",
    "/assets/..%5c..%5cpackage.json",
    "/assets/%252e%252e%252fpackage.json",
    "/assets/%00",
    "/assets/",
    "/assets/drover.css%00.js",
    "/.env",
    "/.git/config",
    "//evil.example/runs",
    "/runs/../.env",
    "/%2e%2e/%2e%2e/.env",
    "/v1/../runs/../.env",
    "/RUNS",
    "/runs%2f..%2f..%2f.env",
    "/%",
    "/%zz",
    "/%80%81",
    "/\u00ff\u00fe",
    `/${"a/".repeat(3_000)}`,
    "/queues/../.env",
    "/healthz/../.env",
    "/login/../.env",
  ];
  await expectRows(
    targets.flatMap((path): Row[] => [
      { what: `${path.slice(0, 80)} with a key`, send: { path, headers: [site.auth.admin] }, status: [400, 404] },
      { what: `${path.slice(0, 80)} without`, send: { path }, status: [400, 401, 404] },
    ]),
  );
});

test("heads that are broken, huge or ambiguous", async () => {
  const { admin, reader } = site.auth;
  const line = (...lines: string[]): string => `${lines.join("\r\n")}\r\n\r\n`;
  const host = ["Host: localhost", "Connection: close"];
  const get = "GET /runs HTTP/1.1";
  const body = '{"agent":"echo","input":"x"}';
  const smuggled = `POST /runs HTTP/1.1\r\nHost: localhost\r\n${admin}\r\n${json}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  await expectRows([
    { what: "a header of 100 KB", send: line(get, ...host, `X-A: ${"a".repeat(100_000)}`), status: [431] },
    { what: "a path of 100 KB", send: line(`GET /${"a".repeat(100_000)} HTTP/1.1`, ...host), status: [431, 414] },
    {
      what: "5,000 headers",
      send: line(get, ...host, ...Array.from({ length: 5_000 }, (_, n) => `X-${n}: a`)),
      status: [431, 401],
    },
    { what: "a header without a name", send: line(get, ...host, ": a"), status: [400] },
    { what: "a blank before the colon", send: line(get, "Host : localhost"), status: [400] },
    { what: "a header that goes on in the next line", send: line(get, ...host, "X-A: a", " b: c"), status: [400, 401] },
    { what: "a null byte in a header", send: line(get, ...host, "X-A: a\0b"), status: [400] },
    { what: "a lone line feed in a header", send: line(get, ...host, "X-A: a\nX-B: b"), status: [400, 401] },
    { what: "a lone carriage return", send: line(get, ...host, "X-A: a\rX-B: b"), status: [400] },
    { what: "no Host", send: line(get, "Connection: close"), status: [400] },
    { what: "two Hosts", send: line(get, ...host, "Host: evil.example"), status: [400, 401] },
    {
      what: "two lengths",
      send: line("POST /runs HTTP/1.1", ...host, admin, json, "Content-Length: 1", "Content-Length: 28") + body,
      status: [400],
    },
    {
      what: "length and chunks",
      send:
        line("POST /runs HTTP/1.1", ...host, admin, json, "Content-Length: 4", "Transfer-Encoding: chunked") + smuggled,
      status: [400],
    },
    {
      what: "chunks, written twice",
      send: line("POST /runs HTTP/1.1", ...host, admin, json, "Transfer-Encoding: chunked, identity") + smuggled,
      status: [400],
    },
    {
      what: "chunks, misspelt",
      send: line("POST /runs HTTP/1.1", ...host, admin, json, "Transfer-Encoding: xchunked") + smuggled,
      status: [400],
    },
    {
      what: "a negative length",
      send: line("POST /runs HTTP/1.1", ...host, admin, json, "Content-Length: -1"),
      status: [400],
    },
    {
      what: "a length that is no number",
      send: line("POST /runs HTTP/1.1", ...host, admin, json, "Content-Length: 0x1c") + body,
      status: [400],
    },
    {
      what: "a chunk of no size",
      send: line("POST /runs HTTP/1.1", ...host, admin, json, "Transfer-Encoding: chunked") + "zz\r\n",
      status: [400],
    },
    {
      what: "a chunk of any size",
      send: line("POST /runs HTTP/1.1", ...host, admin, json, "Transfer-Encoding: chunked") + "fffffffffffffffff\r\n",
      status: [400],
    },
    {
      what: "an endless extension of a chunk",
      send:
        line("POST /runs HTTP/1.1", ...host, admin, json, "Transfer-Encoding: chunked") + `1;${"a".repeat(50_000)}\r\n`,
      status: [400, 413],
    },
    { what: "two keys", send: line(get, ...host, reader, admin), status: [200, 400, 401] },
    {
      what: "two keys for what one may not",
      send: line("DELETE /runs/free-ended HTTP/1.1", ...host, reader, admin),
      status: [400, 401, 403],
    },
    {
      what: "two keys in one header",
      send: line(get, ...host, `${reader}, ${admin.slice("Authorization: ".length)}`),
      status: [401],
      from: "127.0.0.9",
    },
    { what: "no method", send: line(" /runs HTTP/1.1", ...host), status: [400] },
    { what: "no version", send: line("GET /runs", ...host), status: [400, 401] },
    { what: "HTTP/9.9", send: line("GET /runs HTTP/9.9", ...host), status: [400, 505] },
    { what: "HTTP/1.0 without Host", send: line("GET /runs HTTP/1.0"), status: [400, 401] },
    { what: "HTTP/0.9", send: "GET /runs\r\n", status: [400, 408] },
    { what: "the preface of HTTP/2", send: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", status: [400, 505] },
    { what: "a TLS hello", send: Buffer.from("16030100c2010000be0303", "hex"), status: [400] },
    { what: "noise", send: Buffer.from(Array.from({ length: 2_000 }, (_, n) => (n * 7_919) % 256)), status: [400] },
    {
      what: "an upgrade to a socket",
      send: line(
        get,
        ...host,
        admin,
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
      ),
      status: [200, 400, 426],
    },
    {
      what: "an upgrade to HTTP/2",
      send: line(
        get,
        "Host: localhost",
        "Connection: close, Upgrade, HTTP2-Settings",
        "Upgrade: h2c",
        "HTTP2-Settings: AAMAAABkAAQAAP__",
      ),
      status: [400, 401],
    },
    { what: "a URL of another host", send: line("GET http://evil.example/runs HTTP/1.1", ...host), status: [400, 401] },
    {
      what: "an expectation",
      send: line("POST /runs HTTP/1.1", ...host, admin, json, "Expect: the-unexpected", "Content-Length: 0"),
      status: [400, 417],
    },
    {
      what: "a content encoding",
      send:
        line("POST /runs HTTP/1.1", ...host, admin, json, "Content-Encoding: gzip", "Content-Length: 28") +
        body.replace("echo", "\u001f\u008b\u0008\0"),
      status: [400, 415],
    },
  ]);
});

test("methods that an address does not take", async () => {
  const { admin } = site.auth;
  const body = '{"agent":"echo","input":"x"}';
  const run = `/runs/${site.runs.none.ended}`;
  const methods = ["PUT", "PATCH", "OPTIONS", "PROPFIND", "TRACE", "LOCK", "BREW", "get", "CONNECT"];
  await expectRows([
    ...methods.flatMap((method): Row[] =>
      ["/runs", run, "/login", "/"].map((path) => ({
        what: `${method} ${path}`,
        send: { method, path, headers: [admin] },
        status: [400, 405, 501, ...(method === "CONNECT" ? [0] : method === "OPTIONS" ? [204] : [])],
      })),
    ),
    {
      what: "another method in a header",
      send: { method: "GET", path: run, headers: [admin, "X-HTTP-Method-Override: DELETE"] },
      status: [200],
    },
    {
      what: "another method in the query",
      send: { method: "GET", path: "/ui/approvals?_method=DELETE", headers: [admin] },
      status: [200],
    },
    {
      what: "GET with a body",
      send: { method: "GET", path: "/runs", headers: [admin, json], body },
      status: [200, 400],
    },
    {
      what: "HEAD of a command",
      send: { method: "HEAD", path: `${run}/cancel`, headers: [admin] },
      status: [400, 404, 405],
    },
    { what: "GET of a command", send: { method: "GET", path: `${run}/cancel`, headers: [admin] }, status: [404, 405] },
    {
      what: "GET of a form's address",
      send: { method: "GET", path: `/ui/runs/${site.runs.none.waiting}/cancel`, headers: [admin] },
      status: [404, 405],
    },
    { what: "GET of signing out", send: { method: "GET", path: "/logout", headers: [admin] }, status: [404, 405] },
  ]);
});

test("cursors and places in a feed that were never given", async () => {
  const { admin } = site.auth;
  const run = `/runs/${site.runs.none.ended}/events`;
  const cursors = [
    "x",
    "0",
    "-1",
    "AAAA",
    "1700000000000:",
    "000001700000000:../x",
    "000001700000000:a b",
    "x".repeat(399),
    "%00",
    "%7Bdrover%7D",
    "[]",
    "*",
  ];
  const places = [
    "x",
    "-1",
    "1.2",
    "1.2.3.4",
    "1..2",
    "1e3",
    "0x1",
    " ",
    "12.abc.-1",
    "9".repeat(300),
    "1\t2",
    '"1"',
    "NaN",
    "..",
    "1:2",
  ];
  await expectRows([
    ...cursors.map(
      (cursor): Row => ({
        what: `cursor=${cursor.slice(0, 40)}`,
        send: { path: `/runs?cursor=${encodeURI(cursor).replaceAll("%25", "%")}`, headers: [admin] },
        status: [400],
        also: isProblem,
      }),
    ),
    ...places.map(
      (place): Row => ({
        what: `Last-Event-ID: ${place.slice(0, 40)}`,
        send: { path: run, headers: [admin, `Last-Event-ID: ${place}`] },
        status: place.trim() === "" ? [200] : [400],
      }),
    ),
    {
      what: "a place beyond the end",
      send: { path: run, headers: [admin, "Last-Event-ID: 999999999"] },
      status: [200, 204, 400],
    },
    ...["-1", "x", "1e9", "9".repeat(30)].map(
      (after): Row => ({
        what: `starting_after=${after}`,
        send: { path: `/v1/responses/resp_x?stream=true&starting_after=${after}`, headers: [admin] },
        status: [400, 404],
      }),
    ),
  ]);
});

test("queries and headers that would slip something in", async () => {
  const { admin } = site.auth;
  const script = "<script>alert(1)</script>";
  const bare = "Accept: text/html";
  const shown = ({ body }: RawAnswer): string | undefined => (body.includes(script) ? "it is not escaped" : undefined);
  const queries = [
    "/runs?__proto__=x",
    "/runs?__proto__[status]=failed",
    "/runs?constructor.prototype.scopes=admin",
    "/runs?metadata.__proto__=x",
    "/runs?metadata.=x",
    "/runs?status=failed&status=queued",
    "/runs?limit=1&limit=1000000",
    "/runs?tenant=beta",
    "/runs?search=%00",
    "/runs?search=*",
    "/runs?since=%00&until=-1",
    `/runs?${"a=b&".repeat(3_000)}`,
    "/?__proto__=x&status=%00",
    "/?cursor=../../x",
  ];
  const reflected = [
    "/?search=",
    "/?agent=",
    "/?status=",
    "/?metadata=",
    "/ui/runs/",
    "/ui/sessions/",
    "/ui/approvals?notice=",
    "/nowhere/",
    "/login?next=/",
  ];
  const body = '{"agent":"echo","input":"x"}';
  const chunks = `${body.length.toString(16)}\r\n${body}\r\n0\r\n${admin}\r\n\r\n`;
  const head = [
    "POST /runs HTTP/1.1",
    "Host: localhost",
    "Connection: close",
    json,
    "Trailer: Authorization",
    "Transfer-Encoding: chunked",
  ];
  await expectRows([
    ...queries.map((path): Row => ({ what: path.slice(0, 80), send: { path, headers: [admin] }, status: [200, 400] })),
    ...reflected.map(
      (path): Row => ({
        what: `${path}${script}`,
        send: { path: `${path}${encodeURIComponent(`">${script}`)}`, headers: [admin, bare] },
        status: [200, 400, 404],
        also: shown,
      }),
    ),
    { what: "a key in a trailer", send: `${head.join("\r\n")}\r\n\r\n${chunks}`, status: [401] },
    ...["a\tb", "a;b", "x".repeat(5_000), script, "%0d%0aX-Evil: 1"].map(
      (id): Row => ({
        what: `a request id of ${id.slice(0, 20)}`,
        send: { path: "/healthz", headers: [`X-Request-Id: ${id}`] },
        status: [200],
        also: ({ headers }) => (/^[\w-]{36}$/.test(headers.get("x-request-id") ?? "") ? undefined : "it is given back"),
      }),
    ),
    ...[
      `drover=${"x".repeat(8_000)}`,
      "drover=%E0%A4%A",
      "drover",
      "=; ;;=",
      'drover="',
      "__Host-drover=x; drover=\u00ff",
    ].map(
      (cookie): Row => ({
        what: `Cookie: ${cookie.slice(0, 30)}`,
        send: { path: "/runs", headers: [`Cookie: ${cookie}`] },
        status: [401],
      }),
    ),
    ...[
      "Range: bytes=0-1,5-1000000000",
      "If-None-Match: *",
      "If-Modified-Since: x",
      "Accept: \u00ff/*;q=x",
      "Accept-Encoding: \u00ff",
      "TE: trailers, deflate",
      "Traceparent: 00-x",
      "Idempotency-Key: \u00ff",
    ].map((header): Row => ({ what: header, send: { path: "/runs", headers: [admin, header] }, status: [200, 400] })),
    ...["", '""', "a b", "x".repeat(300), "\u00ff", "a\tb"].map(
      (key): Row => ({
        what: `Idempotency-Key: ${key.slice(0, 20)}`,
        send: { method: "POST", path: "/runs", headers: [admin, json, `Idempotency-Key: ${key}`], body },
        status: [400],
        also: isProblem,
      }),
    ),
  ]);
});

describe("slowly", () => {
  const patience = timeoutMs + 15_000;
  const withinMs = (ms: number): boolean => ms < patience;

  test("heads and bodies that never end are cut off, and others are served meanwhile", async () => {
    const { port } = site;
    const head = `POST /runs HTTP/1.1\r\nHost: localhost\r\n${site.auth.admin}\r\n${json}\r\n`;
    const endless = function* (first: string, next: string): Iterable<string> {
      yield first;
      for (;;) yield next;
    };
    const options = { port, timeoutMs: patience + 10_000 };
    const slow = [
      ...Array.from({ length: 40 }, () =>
        sendSlowly(endless("GET /runs HTTP/1.1\r\nHost: localhost\r\n", "X-A: a\r\n"), 200, options),
      ),
      ...Array.from({ length: 20 }, () =>
        sendSlowly(endless(`${head}Content-Length: 60000\r\n\r\n{"agent":"echo","input":"`, "x"), 200, options),
      ),
      ...Array.from({ length: 20 }, () =>
        sendSlowly(endless(`${head}Transfer-Encoding: chunked\r\n\r\n`, "1\r\nx\r\n"), 200, options),
      ),
      ...Array.from({ length: 10 }, () => sendSlowly([], 200, options)),
      ...Array.from({ length: 10 }, () => sendSlowly(["GET /ru"], 200, options)),
    ];
    const meanwhile = await sendRaw(toRequestText({ path: "/runs", headers: [site.auth.admin] }), { port });
    expect(meanwhile.status).toBe(200);
    const ended = await Promise.all(slow);
    for (const { ms, answer } of ended) {
      expect(withinMs(ms)).toBe(true);
      expect([0, 400, 401, 408, 504]).toContain(answer.status);
    }
  });
});

test("several requests in one go: each is asked for its own key", async () => {
  const first = `GET /runs HTTP/1.1\r\nHost: localhost\r\n${site.auth.admin}\r\n\r\n`;
  const second = `DELETE /runs/${site.runs.none.ended} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`;
  const { all } = await sendRaw(first + second, { port: site.port });
  const statuses = [...all.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => status);
  expect(statuses).toEqual(["200", "401"]);
});
