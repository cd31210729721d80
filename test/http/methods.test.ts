// Catches: an address that says it does not exist when it only takes another method, or takes one that it should not.
import { expect, test } from "vitest";
import { createTestHttp, type TestHttp } from "../support/http.ts";
import { pageAgents } from "../support/page-agents.ts";

const open = (): Promise<TestHttp> =>
  createTestHttp({ agents: pageAgents(), deps: { board: async () => new Response("the board") } });

test.each([
  ["PUT", "/runs", "OPTIONS, GET, HEAD, POST"],
  ["PATCH", "/runs/x", "OPTIONS, GET, HEAD, DELETE"],
  ["GET", "/runs/x/cancel", "OPTIONS, POST"],
  ["PROPFIND", "/counts", "OPTIONS, GET, HEAD"],
  ["POST", "/healthz", "OPTIONS, GET, HEAD"],
  ["DELETE", "/", "OPTIONS, GET, HEAD"],
  ["POST", "/ui/queues/api/queues", "OPTIONS, GET, HEAD"],
])("%s %s is 405, with what the address takes", async (method, path, allow) => {
  const http = await open();
  const response = await http.fetch(path, { method });
  expect([response.status, response.headers.get("allow")]).toEqual([405, allow]);
  expect(response.headers.get("content-type")).toBe("application/problem+json");
  expect(await response.json()).toMatchObject({ status: 405, code: "invalid" });
});

test("OPTIONS tells what an address takes, and gives no other site leave to read", async () => {
  const http = await open();
  const response = await http.fetch("/runs", { method: "OPTIONS" });
  expect([response.status, response.headers.get("allow")]).toEqual([204, "OPTIONS, GET, HEAD, POST"]);
  expect(response.headers.get("access-control-allow-origin")).toBeNull();
});

test("where nothing is, no method is taken", async () => {
  const http = await open();
  for (const method of ["GET", "PUT", "OPTIONS"]) {
    const response = await http.fetch("/nowhere", { method });
    expect([method, response.status, response.headers.get("allow")]).toEqual([method, 404, null]);
  }
  expect((await http.fetch("/assets/none.css")).status).toBe(404);
});
