import { expect, test } from "vitest";
import { bearer, makeKey, makeSite } from "./setup.ts";

const local = "http://localhost:7717";

test("without keys, a server bound to loopback serves everybody there, as local with all scopes", async () => {
  const site = makeSite({ keyless: true });
  const response = await site.ask("/thing", { url: local });
  expect(await response.json()).toEqual({ name: "local", scopes: ["start", "read", "decide", "admin"] });
});

test("without keys, a server bound wider serves nobody, and says what to do", async () => {
  const site = makeSite();
  const response = await site.ask("/thing", { url: local });
  expect(response.status).toBe(401);
  expect(await response.json()).toMatchObject({ detail: expect.stringContaining("drover keys create") });
});

test.each([
  ["http://localhost:7717", 200],
  ["http://localhost", 200],
  ["http://127.0.0.1:7717", 200],
  ["http://127.9.9.9:7717", 200],
  ["http://[::1]:7717", 200],
  ["http://evil.example:7717", 403],
  ["http://localhost.evil.example:7717", 403],
  ["http://127.0.0.1.evil.example", 403],
  ["http://192.168.1.5:7717", 403],
  ["http://0.0.0.0:7717", 403],
])("called as %s: %i", async (url, status) => {
  expect((await makeSite({ keyless: true }).ask("/thing", { url })).status).toBe(status);
});

test.each([
  [{ host: "evil.example" }, "GET", 403],
  [{ host: "localhost:7717, evil.example" }, "GET", 403],
  [{ origin: "http://evil.example" }, "POST", 403],
  [{ origin: "null" }, "POST", 403],
  [{ origin: "http://localhost:8000" }, "POST", 403],
  [{ origin: local }, "POST", 200],
  [{ origin: local.toUpperCase() }, "POST", 200],
  [{ "sec-fetch-site": "cross-site" }, "GET", 403],
  [{ "sec-fetch-site": "same-site" }, "POST", 403],
  [{ "sec-fetch-site": "same-origin" }, "POST", 200],
  [{ "sec-fetch-site": "same-origin", origin: "http://evil.example" }, "POST", 403],
  [{ "sec-fetch-site": "none" }, "GET", 200],
  // A link is followed; a form, a picture or a script of another site is not served.
  [{ "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" }, "GET", 200],
  [{ "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe" }, "GET", 403],
  [{ "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" }, "POST", 403],
  [{ "x-forwarded-for": "203.0.113.9" }, "GET", 403],
  [{ forwarded: "for=203.0.113.9" }, "GET", 403],
  [{ via: "1.1 proxy" }, "GET", 403],
  // Common settings of nginx, and what content networks add.
  [{ "x-real-ip": "203.0.113.9" }, "GET", 403],
  [{ "x-forwarded-proto": "https" }, "GET", 403],
  [{ "x-forwarded-port": "443" }, "GET", 403],
  [{ "cf-connecting-ip": "203.0.113.9" }, "GET", 403],
  [{ "true-client-ip": "203.0.113.9" }, "GET", 403],
  [{ "x-envoy-external-address": "203.0.113.9" }, "GET", 403],
] as const)("%j by %s: %i", async (headers, method, status) => {
  expect((await makeSite({ keyless: true }).ask("/thing", { url: local, headers, method })).status).toBe(status);
});

test("the holder of the first key is served as that, in the second before others are refused", async () => {
  const site = makeSite({ keyless: true });
  expect((await site.ask("/thing", { url: local })).status).toBe(200);
  const { key, token } = makeKey({ scopes: ["read"], tenant: "acme" });
  await site.table.put(key);
  const response = await site.ask("/thing", { url: local, headers: bearer(token) });
  expect(await response.json()).toMatchObject({ scopes: ["read"], tenant: "acme", keyId: key.id });
  expect((await site.ask("/thing", { url: local })).status).toBe(401);
});

test("the first key ends it, and removing the last one does not bring it back", async () => {
  const site = makeSite({ keyless: true });
  expect((await site.ask("/thing", { url: local })).status).toBe(200);
  const { key } = makeKey();
  await site.table.put(key);
  const status = async (): Promise<number> => (await site.ask("/thing", { url: local })).status;
  await expect.poll(status, { timeout: 3_500 }).toBe(401);
  await site.table.remove(key.id);
  await new Promise((resolve) => setImmediate(resolve));
  expect(await status()).toBe(401);
});
