// A server without keys on loopback serves this machine, and nobody who reaches it through somebody's browser.
import { afterAll, beforeAll, expect, test } from "vitest";
import { playRows, type Row } from "../support/hostile/rows.ts";
import { openSite, type Site } from "../support/hostile/site.ts";

let site: Site;
beforeAll(async () => {
  site = await openSite({ keys: false });
});
afterAll(() => site?.stop());

const json = "Content-Type: application/json";

test("names of strangers, pages of strangers and proxies are refused; nothing changes", async () => {
  const before = await site.snapshot();
  const own = `localhost:${site.port}`;
  const hosts = [
    "evil.example",
    `evil.example:${site.port}`,
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "0.0.0.0",
    "[::]",
    "192.168.0.1",
    "169.254.169.254",
    "evil@localhost",
    "localhost:99999999",
    "localhost:",
    "2130706433",
    "0x7f000001",
    "127.1",
    "[::ffff:127.0.0.1]",
  ];
  const headers: string[][] = [
    ["Origin: https://evil.example"],
    ["Origin: null"],
    [`Origin: http://localhost:1`],
    [`Origin: https://${own}.evil.example`],
    ["Sec-Fetch-Site: cross-site"],
    ["Sec-Fetch-Site: same-site"],
    ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"],
    ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"],
    ["X-Forwarded-For: 203.0.113.9"],
    ["X-Forwarded-Host: evil.example"],
    ["Forwarded: for=203.0.113.9"],
    ["Via: 1.1 proxy"],
  ];
  const cancel = `/runs/${site.runs.none.waiting}/cancel`;
  const form = `/ui/runs/${site.runs.none.waiting}/cancel`;
  const targets = [
    { path: "/runs" },
    { method: "POST", path: "/runs", body: '{"agent":"echo","input":"x"}' },
    { method: "POST", path: cancel, body: "{}" },
    { method: "POST", path: form, body: "reason=x" },
  ];
  const rows = targets.flatMap((target): Row[] => [
    ...hosts.map(
      (host): Row => ({
        what: `${target.path} at ${host}`,
        send: { ...target, host, headers: [json] },
        status: [400, 403],
      }),
    ),
    ...headers.map(
      (given): Row => ({
        what: `${target.path} with ${given.join(", ")}`,
        send: { ...target, host: own, headers: [json, ...given] },
        status: [403],
      }),
    ),
  ]);
  expect(await playRows(site.port, rows)).toEqual([]);
  expect(await site.snapshot()).toEqual(before);
});

test("programs and pages of this machine are served", async () => {
  const rows: Row[] = [`localhost:${site.port}`, `127.0.0.1:${site.port}`, `[::1]:${site.port}`].map((host) => ({
    what: `GET /runs at ${host}`,
    send: { path: "/runs", host },
    status: [200],
  }));
  expect(await playRows(site.port, rows)).toEqual([]);
});
