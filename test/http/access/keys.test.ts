import { describe, expect, test } from "vitest";
import { bearer, makeKey, makeSite, type Site, signIn } from "./setup.ts";

test("a good key is served under its name, scopes and tenant", async () => {
  const site = makeSite();
  const { key, token } = makeKey({ name: "shop", scopes: ["start", "read"], tenant: "acme" });
  await site.table.put(key);
  const response = await site.ask("/thing", { headers: bearer(token) });
  expect(response.status).toBe(200);
  expect(await response.json()).toEqual({ name: "shop", scopes: ["start", "read"], tenant: "acme", keyId: key.id });
});

test.each([
  ["none", undefined],
  ["another scheme", "Basic dXNlcjpwYXNz"],
  ["no token", "Bearer "],
  ["an unknown id", `Bearer drv_abcdefghijkl_${"x".repeat(43)}`],
  ["two keys in one header", "Bearer drv_a_b, Bearer drv_c_d"],
  ["the query of a key", "Bearer drv_*_*"],
])("%s is refused as a problem that says how to ask, and names no secret", async (_what, authorization) => {
  const site = makeSite();
  await site.table.put(makeKey().key);
  const response = await site.ask("/thing", authorization === undefined ? {} : { headers: { authorization } });
  expect(response.status).toBe(401);
  expect(response.headers.get("content-type")).toBe("application/problem+json");
  expect(response.headers.get("www-authenticate")).toMatch(/^Bearer realm="drover"/);
  const body = await response.text();
  expect(JSON.parse(body)).toMatchObject({ status: 401, title: expect.any(String), detail: expect.any(String) });
  expect(body).not.toContain("xxxx");
});

test("a password that a proxy asked for is no key, and does not hide who signed in", async () => {
  const site = makeSite();
  const { key, token } = makeKey();
  await site.table.put(key);
  const { cookie } = await signIn(site, token);
  const basic = { authorization: "Basic dXNlcjpwYXNz" };
  expect((await site.ask("/thing", { headers: { ...basic, cookie } })).status).toBe(200);
  for (let round = 0; round < 30; round += 1) await site.ask("/thing", { headers: basic });
  // None of those was a wrong key.
  const { key: other, token: otherToken } = makeKey();
  await site.table.put(other);
  expect((await site.ask("/thing", { headers: bearer(otherToken) })).status).toBe(200);
  expect(
    (await site.ask("/thing", { headers: { authorization: `${bearer(token).authorization} x`, cookie } })).status,
  ).toBe(401);
});

test("another secret, an expired key and a key of another id are refused", async () => {
  const site = makeSite();
  const [good, other, expired] = [makeKey(), makeKey(), makeKey({ expiresAt: Date.now() - 1 })];
  for (const { key } of [good, other, expired]) await site.table.put(key);
  const foreign = `drv_${good.key.id}_${other.token.slice(other.token.lastIndexOf(other.key.id) + other.key.id.length + 1)}`;
  for (const token of [foreign, expired.token]) {
    expect((await site.ask("/thing", { headers: bearer(token) })).status).toBe(401);
  }
  expect((await site.ask("/thing", { headers: bearer(good.token) })).status).toBe(200);
});

test("a key that is removed or rotated stops within seconds; a new one works at once", async () => {
  const site = makeSite();
  const [first, second] = [makeKey(), makeKey()];
  await site.table.put(first.key);
  expect((await site.ask("/thing", { headers: bearer(second.token) })).status).toBe(401);
  await site.table.put(second.key);
  expect((await site.ask("/thing", { headers: bearer(second.token) })).status).toBe(200);
  await site.table.remove(second.key.id);
  await expect
    .poll(async () => (await site.ask("/thing", { headers: bearer(second.token) })).status, { timeout: 3_500 })
    .toBe(401);
});

describe("a stream", () => {
  const begin = async (site: Site, headers: Record<string, string>, url?: string) => {
    const response = await site.ask("/stream", { headers, ...(url ? { url } : {}) });
    const reader = response.body?.getReader();
    expect(new TextDecoder().decode((await reader?.read())?.value)).toBe("data: x\n\n");
    return reader;
  };

  test("ends when its key is removed, and so does what makes it", async () => {
    const site = makeSite();
    const { key, token } = makeKey();
    await site.table.put(key);
    const reader = await begin(site, bearer(token));
    await site.table.remove(key.id);
    expect((await reader?.read())?.done).toBe(true);
    expect(site.ended).toBe(true);
  });

  test("that a page's program asked for with POST ends too when the key is removed", async () => {
    const site = makeSite();
    const { key, token } = makeKey();
    await site.table.put(key);
    const { cookie, csrf } = await signIn(site, token);
    const response = await site.ask("/stream", { method: "POST", headers: { cookie, "x-csrf-token": csrf } });
    const reader = response.body?.getReader();
    await reader?.read();
    await site.table.remove(key.id);
    expect((await reader?.read())?.done).toBe(true);
    expect(site.ended).toBe(true);
  });

  test("of a server without keys ends with the first key", async () => {
    const site = makeSite({ keyless: true });
    const reader = await begin(site, {}, "http://localhost");
    await site.table.put(makeKey().key);
    expect((await reader?.read())?.done).toBe(true);
  });

  test("that its reader leaves is told so, and goes on while Redis is away", async () => {
    const site = makeSite();
    const { key, token } = makeKey();
    await site.table.put(key);
    const reader = await begin(site, bearer(token));
    const asked = Promise.withResolvers<void>();
    site.table.get = () => {
      asked.resolve();
      return Promise.reject(new Error("away"));
    };
    await asked.promise;
    await new Promise((resolve) => setImmediate(resolve));
    expect(site.ended).toBe(false);
    await reader?.cancel();
    expect(site.ended).toBe(true);
  });
});

test("a good key costs Redis one read a second, however often it comes", async () => {
  const site = makeSite();
  const { key, token } = makeKey();
  await site.table.put(key);
  for (let round = 0; round < 50; round += 1) await site.ask("/thing", { headers: bearer(token) });
  expect(site.table.reads.length).toBeLessThan(10);
});

test("keys of the settings work without Redis's, and win over one of the same id", async () => {
  const fixed = makeKey({ id: "ci", name: "ci", scopes: ["read"] });
  const site = makeSite({ staticKeys: [fixed.key] });
  await site.table.put({ ...makeKey({ id: "ci" }).key, scopes: ["admin"] });
  const response = await site.ask("/thing", { headers: bearer(fixed.token) });
  expect(await response.json()).toMatchObject({ name: "ci", scopes: ["read"] });
});

describe("scopes", () => {
  test.each([
    [["decide"], 200],
    [["admin"], 200],
    [["start", "read"], 403],
    [[], 403],
  ] as const)("%j: %i", async (scopes, status) => {
    const site = makeSite();
    const { key, token } = makeKey({ scopes: [...scopes], name: "shop" });
    await site.table.put(key);
    const response = await site.ask("/decide", { headers: bearer(token) });
    expect(response.status).toBe(status);
    if (status === 403)
      expect(await response.json()).toMatchObject({ detail: expect.stringMatching(/"shop" lacks the scope decide/) });
  });

  test("below /v1 refusals have OpenAI's shape", async () => {
    const site = makeSite();
    const { key, token } = makeKey({ scopes: ["read"] });
    await site.table.put(key);
    const missing = await site.ask("/v1/decide");
    expect(missing.status).toBe(401);
    expect(await missing.json()).toMatchObject({ error: { code: "invalid_api_key", type: "authentication_error" } });
    const lacking = await site.ask("/v1/decide", { headers: bearer(token) });
    expect(await lacking.json()).toMatchObject({ error: { message: expect.stringMatching(/lacks the scope/) } });
  });
});

test("wrong keys of one address are slowed down; a key that has been good goes on, others are not touched", async () => {
  const site = makeSite();
  const { key, token } = makeKey();
  await site.table.put(key);
  expect((await site.ask("/thing", { headers: bearer(token) })).status).toBe(200);
  const bad = bearer(`drv_${key.id}_${"x".repeat(43)}`);
  const statuses: number[] = [];
  for (let round = 0; round < 25; round += 1) statuses.push((await site.ask("/thing", { headers: bad })).status);
  expect(statuses.slice(0, 20)).toEqual(Array.from({ length: 20 }, () => 401));
  expect(statuses.slice(20)).toEqual([429, 429, 429, 429, 429]);
  expect(site.lines.filter(({ message }) => message.startsWith("too many wrong keys"))).toHaveLength(1);
  const refused = await site.ask("/thing", { headers: bad });
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
  expect((await site.ask("/thing", { headers: bearer(token) })).status).toBe(200);
  expect((await site.ask("/thing", { headers: bad, address: "192.0.2.2" })).status).toBe(401);
});

test("when Redis is away nobody is let in, and the answer says what it is", async () => {
  const site = makeSite({ keyless: true });
  site.table.list = () => Promise.reject(new Error("ECONNREFUSED secret-host"));
  const response = await site.ask("/thing");
  expect(response.status).toBe(503);
  expect(response.headers.get("retry-after")).toBe("2");
  expect(response.headers.get("x-content-type-options")).toBe("nosniff");
  expect(await response.text()).not.toContain("secret-host");
  expect(site.lines).toContainEqual(expect.objectContaining({ level: "warn", message: "request failed" }));
});
