// Catches: a key that somebody sent in the place of a name, and gets back in an error that lands in a log.
import { expect, test } from "vitest";
import { createTestHttp, json } from "../support/http.ts";
import { makeAgent } from "./v1/support.ts";

const key = `drv_abcdefghijkl_${"aB3".repeat(15)}`;

test.each([
  ["/v1/responses", json({ model: key, input: "hi" }), 404],
  ["/v1/responses", json({ model: "helper", input: "hi", metadata: { [key]: 1 } }), 400],
  [`/v1/responses/${key}`, {}, 404],
  [`/v1/models/${key}`, {}, 404],
  [`/v1/${key}`, {}, 404],
  [`/runs/${key}`, {}, 404],
  [`/runs/${key}`, { headers: { accept: "text/html" } }, 404],
  [`/sessions/${key}`, {}, 404],
  ["/runs", json({ agent: "helper", input: "hi", [key]: 1 }), 400],
])("what refuses %s shows no secret of the request", async (path, init, status) => {
  const { fetch } = await createTestHttp({ agents: [makeAgent(["hi"])] });
  const response = await fetch(path, init);
  expect(response.status).toBe(status);
  expect(response.headers.get("x-content-type-options")).toBe("nosniff");
  const body = await response.text();
  expect(body).not.toContain("aB3aB3");
  expect(body).toMatch(path.startsWith("/runs/") && "headers" in init ? /<!doctype html>/i : /^\{.*\}$/s);
});
