import { describe, expect, test } from "vitest";
import { toLocalPath } from "../../../src/http/access/origin.ts";
import { bearer, form, makeKey, makeSite, origin, type Site, signIn } from "./setup.ts";

const page = { accept: "text/html,application/xhtml+xml" };

async function setUp(settings = {}): Promise<{ site: Site; token: string; id: string }> {
  const site = makeSite(settings);
  const { key, token } = makeKey({ name: "ops" });
  await site.table.put(key);
  return { site, token, id: key.id };
}

test("a page without a sign-in leads to the form and back; a program is told", async () => {
  const { site } = await setUp();
  const response = await site.ask("/thing?status=failed&x=%2F", { headers: page });
  expect(response.status).toBe(303);
  expect(response.headers.get("location")).toBe("/login?next=%2Fthing%3Fstatus%3Dfailed%26x%3D%252F");
  expect((await site.ask("/thing", { headers: { accept: "application/json" } })).status).toBe(401);
});

test("signing in gives a cookie that scripts cannot read, kept as a hash, and new each time", async () => {
  const { site, token } = await setUp();
  const response = await site.ask("/login", form({ key: ` ${token} `, next: "/thing" }));
  expect(response.status).toBe(303);
  expect(response.headers.get("location")).toBe("/thing");
  const cookie = response.headers.get("set-cookie") ?? "";
  expect(cookie).toMatch(/^drover=[A-Za-z0-9_-]{43}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Lax$/);
  const value = cookie.slice("drover=".length).split(";")[0] ?? "";
  expect([...site.table.sessions.keys()].join()).not.toContain(value);
  const again = await site.ask("/login", form({ key: token }, { cookie: `drover=${value}` }));
  expect(again.headers.get("set-cookie")).not.toContain(value);
  expect(site.table.sessions.size).toBe(1);
  expect((await site.ask("/thing", { headers: { cookie: `drover=${value}` } })).status).toBe(401);
});

test("over HTTPS the cookie has the host prefix and Secure, and the answer HSTS", async () => {
  const { site, token } = await setUp({ secureCookies: true });
  const response = await site.ask(
    "/login",
    form({ key: token }, { origin: "https://drover.test", "sec-fetch-site": "same-origin" }),
  );
  expect(response.headers.get("set-cookie")).toMatch(
    /^__Host-drover=.{43};.* Path=\/; HttpOnly; Secure; SameSite=Lax$/,
  );
  expect(response.headers.get("strict-transport-security")).toBe("max-age=31536000");
  const plain = await site.ask("/login", form({ key: token }, { origin }));
  expect(plain.status).toBe(400);
  expect(await plain.text()).toContain("DROVER_HTTP_SECURE_COOKIES");
});

test("a wrong key shows the form again, says so, and keeps where to go; it is not repeated", async () => {
  const { site } = await setUp();
  const response = await site.ask("/login", form({ key: "drv_x_wrong-secret", next: "/thing" }));
  expect(response.status).toBe(401);
  const body = await response.text();
  expect(body).toContain('role="alert"');
  expect(body).toContain('name="next" value="/thing"');
  expect(body).not.toContain("wrong-secret");
  expect(response.headers.get("set-cookie")).toBeNull();
});

test("failures to sign in are slowed down together with wrong keys", async () => {
  const { site, token } = await setUp();
  for (let round = 0; round < 20; round += 1) await site.ask("/login", form({ key: "wrong" }));
  const response = await site.ask("/login", form({ key: token }));
  expect(response.status).toBe(429);
  expect(await response.text()).toContain("Try again in");
  expect((await site.ask("/login", { ...form({ key: token }), address: "2001:db8::1" })).status).toBe(303);
});

test("addresses of one IPv6 network count as one", async () => {
  const { site } = await setUp();
  const bad = bearer(`drv_x_${"x".repeat(43)}`);
  const ask = (address: string): Promise<Response> => site.ask("/thing", { headers: bad, address });
  for (let round = 0; round < 20; round += 1) await ask(`2001:db8:0:1::${round + 1}`);
  expect((await ask("2001:db8:0:1:ffff::9")).status).toBe(429);
  expect((await ask("2001:db8:0:2::1")).status).toBe(401);
  expect((await ask("::ffff:192.0.2.7")).status).toBe(401);
});

test("another site cannot sign somebody in", async () => {
  const { site, token } = await setUp();
  for (const headers of [{ origin: "http://evil.example" }, { "sec-fetch-site": "cross-site" }]) {
    const response = await site.ask("/login", form({ key: token }, headers));
    expect(response.status).toBe(403);
    expect(response.headers.get("set-cookie")).toBeNull();
  }
});

test.each([
  ["/runs?x=1", "/runs?x=1"],
  ["/a/../b", "/b"],
  ["//evil.example", "/"],
  ["/\\evil.example", "/"],
  ["/\t/evil.example", "/"],
  ["/.//evil.example", "/"],
  ["https://evil.example/", "/"],
  ["javascript:alert(1)", "/"],
  ["/login?next=/x", "/"],
  ["/logout", "/"],
  ["", "/"],
  [`/${"x".repeat(3_000)}`, "/"],
  ["/a\r\nset-cookie: x=y", "/aset-cookie:%20x=y"],
])("after signing in %j leads to %j", (next, path) => {
  expect(toLocalPath(next)).toBe(path);
});

describe("forms", () => {
  test("pass with the token of the sign-in, as a field or header", async () => {
    const { site, token } = await setUp();
    const { cookie, csrf } = await signIn(site, token);
    expect((await site.ask("/decide", form({ csrf, reason: "x" }, { cookie }))).status).toBe(200);
    const byHeader = { method: "POST", headers: { cookie, "x-csrf-token": csrf }, body: "{}" };
    expect((await site.ask("/decide", byHeader)).status).toBe(200);
    expect((await site.ask("/decide", { method: "DELETE", headers: { cookie, "x-csrf-token": csrf } })).status).toBe(
      200,
    );
  });

  test("are refused without it, with another's, with an old one and from elsewhere", async () => {
    const { site, token } = await setUp();
    const { cookie, csrf } = await signIn(site, token);
    const other = await signIn(site, token);
    const tries: RequestInit[] = [
      form({}, { cookie }),
      form({ csrf: other.csrf }, { cookie }),
      form({ csrf: "" }, { cookie }),
      form({ csrf }, { cookie, origin: "http://evil.example" }),
      form({ csrf }, { cookie, origin: "null" }),
      form({ csrf }, { cookie, "sec-fetch-site": "cross-site" }),
      { method: "POST", headers: { cookie, "content-type": "application/json" }, body: JSON.stringify({ csrf }) },
      { method: "POST", headers: { cookie, "content-type": "text/plain" }, body: `csrf=${csrf}` },
      { method: "DELETE", headers: { cookie } },
      { method: "PUT", headers: { cookie } },
      { method: "POST", headers: { cookie, "x-csrf-token": `${csrf}x` } },
    ];
    for (const init of tries) expect((await site.ask("/decide", init)).status).toBe(403);
    // The token of a session that ended says nothing for the next one.
    await site.ask("/logout", form({ csrf }, { cookie }));
    const next = await signIn(site, token);
    expect((await site.ask("/decide", form({ csrf }, { cookie: next.cookie }))).status).toBe(403);
  });

  test("of a size beyond the limit are refused, declared or not", async () => {
    const { site, token } = await setUp();
    const { cookie, csrf } = await signIn(site, token);
    const fields = { csrf, text: "x".repeat(30_000) };
    const large = form(fields, { cookie });
    const declared = form(fields, { cookie, "content-length": String(String(large.body).length) });
    expect((await site.ask("/decide", declared)).status).toBe(413);
    expect((await site.ask("/decide", large)).status).toBe(413);
    expect((await site.ask("/login", form({ key: "x".repeat(30_000) }))).status).toBe(413);
  });

  test("a key in the header needs no token, whatever cookie comes along", async () => {
    const { site, token } = await setUp();
    const { cookie } = await signIn(site, token);
    expect((await site.ask("/decide", form({}, { cookie, ...bearer(token) }))).status).toBe(200);
    expect((await site.ask("/decide", form({}, { cookie, ...bearer("drv_no") }))).status).toBe(401);
  });
});

describe("a sign-in ends", () => {
  test("by signing out, and its cookie is worth nothing then", async () => {
    const { site, token } = await setUp();
    const { cookie, csrf } = await signIn(site, token);
    const out = await site.ask("/logout", form({ csrf }, { cookie }));
    expect(out.headers.get("location")).toBe("/login");
    expect(out.headers.get("set-cookie")).toMatch(/^drover=; Max-Age=0/);
    expect((await site.ask("/thing", { headers: { cookie } })).status).toBe(401);
    expect((await site.ask("/logout", form({ csrf: "x" }, { cookie: "drover=x" }))).status).toBe(401);
  });

  test("with its key, with the key's time, and with the secret it was opened with", async () => {
    for (const change of ["remove", "expire", "rotate"] as const) {
      const { site, token, id } = await setUp();
      const { cookie } = await signIn(site, token);
      const key = site.table.keys.get(id);
      if (!key) throw new Error("no key");
      if (change === "remove") await site.table.remove(id);
      if (change === "expire") await site.table.put({ ...key, expiresAt: Date.now() });
      if (change === "rotate") await site.table.put({ ...key, secretHash: makeKey().key.secretHash });
      const status = async (): Promise<number> => (await site.ask("/thing", { headers: { cookie } })).status;
      await expect.poll(status, { timeout: 3_500 }).toBe(401);
    }
  });

  test("not while the old secret of a rotated key is still good", async () => {
    const { site, token, id } = await setUp();
    const { cookie } = await signIn(site, token);
    const key = site.table.keys.get(id);
    if (!key) throw new Error("no key");
    const previous = { secretHash: key.secretHash, validUntil: Date.now() + 60_000 };
    await site.table.put({ ...key, secretHash: makeKey().key.secretHash, previous });
    site.table.reads.length = 0;
    await expect
      .poll(
        async () => {
          expect((await site.ask("/thing", { headers: { cookie } })).status).toBe(200);
          return site.table.reads.length;
        },
        { timeout: 3_500 },
      )
      .toBeGreaterThan(0);
  });
});

describe("headers", () => {
  test("are on every answer: served, refused, unknown, failed, redirected", async () => {
    const { site, token } = await setUp();
    for (const path of ["/thing", "/nowhere", "/fails", "/login", "/healthz"]) {
      for (const headers of [bearer(token), page, {}]) {
        const { headers: given } = await site.ask(path, { headers });
        const policy = given.get("content-security-policy") ?? "";
        expect(policy).toMatch(
          /^default-src 'none'; script-src 'self' 'nonce-[A-Za-z0-9+/]{22}=='; style-src 'self' 'nonce-/,
        );
        expect(policy).toContain("form-action 'self'; base-uri 'none'; frame-ancestors 'none'");
        expect(given.get("x-content-type-options")).toBe("nosniff");
        expect(given.get("referrer-policy")).toBe("same-origin");
        expect(given.get("cross-origin-opener-policy")).toBe("same-origin");
        expect(given.get("cross-origin-resource-policy")).toBe("same-origin");
        expect(given.get("x-frame-options")).toBe("DENY");
        expect(given.get("cache-control")).toBe("no-store");
        expect(given.get("strict-transport-security")).toBeNull();
        expect(given.get("x-powered-by") ?? given.get("server")).toBeNull();
        expect(given.get("x-request-id")).toMatch(/^[\w-]{36}$/);
      }
    }
  });

  test("a handler's own policy is kept; nonces differ", async () => {
    const { site, token } = await setUp();
    const own = await site.ask("/own-policy", { headers: bearer(token) });
    expect(own.headers.get("content-security-policy")).toBe("default-src 'self'");
    const policies = new Set<string | null>();
    for (let round = 0; round < 5; round += 1) {
      policies.add((await site.ask("/healthz")).headers.get("content-security-policy"));
    }
    expect(policies.size).toBe(5);
  });
});

test("a line per request: who, what, how long, never the query or a secret", async () => {
  const { site, token } = await setUp();
  await site.ask("/thing?token=abc", { headers: { ...bearer(token), "x-request-id": "req-7" } });
  await site.ask("/fails", { headers: bearer(token) });
  expect(site.lines).toMatchObject([
    {
      level: "debug",
      message: "request",
      fields: { method: "GET", path: "/thing", status: 200, requestId: "req-7", caller: "ops" },
    },
    { level: "warn", message: "request failed", fields: { path: "/fails", status: 500 } },
  ]);
  expect(site.lines[0]?.fields.ms).toEqual(expect.any(Number));
  expect(JSON.stringify(site.lines)).not.toContain(token.slice(20));
  expect(JSON.stringify(site.lines)).not.toContain("abc");
});

test("a request id that could forge a line or a header is replaced", async () => {
  const { site } = await setUp();
  for (const given of ["a b", "x".repeat(65), '{"a":1}']) {
    expect((await site.ask("/healthz", { headers: { "x-request-id": given } })).headers.get("x-request-id")).not.toBe(
      given,
    );
  }
});
