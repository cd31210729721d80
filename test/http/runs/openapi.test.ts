// Catches: a document that is no valid OpenAPI, leaves an address out, or describes other answers than are given.
import { type Schema, Validator } from "@cfworker/json-schema";
import { Validator as DocumentValidator } from "@seriousme/openapi-schema-validator";
import { describe, expect, test } from "vitest";
import { defineAgent } from "../../../src/define-agent.ts";
import { scriptedModel } from "../../../src/testing/scripted-model.ts";
import { askPerson } from "../../../src/tools/stock/ask-person.ts";
import { createTestHttp, json, type TestHttp } from "../../support/http.ts";

type Answer = { description: string; content?: Record<string, { schema: Schema }> };
type Parameter = { name: string; in: string; required: boolean; schema: Schema; description?: string };
type Operation = {
  operationId: string;
  summary: string;
  tags: string[];
  security: Record<string, string[]>[];
  parameters?: Parameter[];
  responses: Record<string, Answer>;
};
type Document = {
  openapi: string;
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema>; securitySchemes: Record<string, unknown> };
};

async function makeHttp(): Promise<{ http: TestHttp; document: Document }> {
  const model = scriptedModel([{ toolCalls: [{ name: "ask_person", arguments: { question: "Where to?" } }] }, "done"]);
  const agents = [defineAgent({ name: "asker", instructions: "Ask.", model, tools: [askPerson()] })];
  const http = await createTestHttp({ agents, deps: { metrics: async () => "" } });
  return { http, document: (await (await http.fetch("/openapi.json")).json()) as Document };
}

const operationsOf = ({ paths }: Document): { method: string; path: string; operation: Operation }[] =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method, path, operation })),
  );

test("every address is in it", async () => {
  const { document } = await makeHttp();
  expect(operationsOf(document).map(({ method, path }) => `${method.toUpperCase()} ${path}`)).toMatchInlineSnapshot(`
    [
      "GET /healthz",
      "GET /readyz",
      "GET /openapi.json",
      "POST /runs",
      "GET /runs",
      "GET /runs/{runId}",
      "DELETE /runs/{runId}",
      "GET /runs/{runId}/result",
      "GET /runs/{runId}/turns",
      "GET /runs/{runId}/audit",
      "GET /runs/{runId}/transcript",
      "GET /sessions/{session}",
      "GET /sessions/{session}/transcript",
      "GET /runs/{runId}/calls/{callId}/result",
      "GET /runs/{runId}/events",
      "POST /runs/{runId}/cancel",
      "POST /runs/{runId}/pause",
      "POST /runs/{runId}/resume",
      "POST /runs/{runId}/retry",
      "POST /runs/{runId}/input",
      "POST /runs/{runId}/calls/{callId}/approve",
      "POST /runs/{runId}/calls/{callId}/deny",
      "POST /runs/{runId}/calls/{callId}/answer",
      "GET /counts",
      "GET /agents",
      "GET /fleet",
      "GET /metrics",
      "POST /fleet/pause",
      "POST /fleet/resume",
    ]
  `);
});

describe("the document", () => {
  test("is valid OpenAPI 3.1", async () => {
    const { document } = await makeHttp();
    const validator = new DocumentValidator();
    const { valid, errors } = await validator.validate(document);
    expect([validator.version, valid, errors]).toEqual(["3.1", true, undefined]);
    const spoilt = { ...document, paths: { ...document.paths, "/spoilt": { get: { responses: 7 } } } };
    expect(await new DocumentValidator().validate(spoilt)).toMatchObject({ valid: false });
  });

  test("is whole: every reference leads somewhere, every parameter of a path is described, every operation has a name", async () => {
    const { document } = await makeHttp();
    expect(document.openapi).toBe("3.1.0");
    const { schemas, securitySchemes } = document.components;
    for (const [, name = ""] of JSON.stringify(document).matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
      expect(Object.keys(schemas)).toContain(name);
    }
    const operations = operationsOf(document);
    const names = operations.map(({ operation }) => operation.operationId);
    expect(new Set(names).size).toBe(names.length);
    for (const { path, operation } of operations) {
      const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      const described = (operation.parameters ?? []).filter(({ in: place }) => place === "path");
      expect(described.map(({ name, required }) => [name, required])).toEqual(inPath.map((name) => [name, true]));
      for (const { description = "" } of operation.parameters ?? []) expect(description).not.toBe("");
      for (const name of operation.security.flatMap(Object.keys)) expect(securitySchemes).toHaveProperty(name);
      expect(operation.summary).not.toBe("");
    }
  });

  test("describes the problems that may come, in one form", async () => {
    const { document } = await makeHttp();
    for (const { operation } of operationsOf(document)) {
      for (const [status, { content }] of Object.entries(operation.responses)) {
        if (Number(status) < 400) continue;
        expect(content).toEqual({ "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } });
      }
    }
  });
});

test("what is answered is what the document says", async () => {
  const { http, document } = await makeHttp();
  const asked = new Set<string>();

  async function ask(method: string, path: string, url: string, body?: unknown): Promise<void> {
    const response = await http.fetch(url, body === undefined ? { method } : { ...json(body), method });
    const answer = document.paths[path]?.[method.toLowerCase()]?.responses[response.status];
    if (!answer) throw new Error(`${method} ${url} answers ${response.status}, which is not described`);
    asked.add(`${method} ${path}`);
    const text = await response.text();
    const [type = ""] = (response.headers.get("content-type") ?? "").split(";");
    if (!answer.content) {
      expect(text).toBe("");
      return;
    }
    const schema = answer.content[type]?.schema;
    if (!schema) throw new Error(`${method} ${url} answers with ${type}, which is not described`);
    if (!type.endsWith("json")) return;
    const validator = new Validator({ ...schema, components: document.components } as Schema, "2020-12");
    const { valid, errors } = validator.validate(JSON.parse(text));
    expect([method, url, valid, errors]).toEqual([method, url, true, []]);
  }

  await ask("POST", "/runs", "/runs", { agent: "asker", input: "go", runId: "r-1", session: "chat" });
  await ask("POST", "/runs", "/runs", { agent: "asker", input: "other", runId: "r-1" });
  await ask("POST", "/runs", "/runs", { agent: 7 });
  for await (const { type } of http.drover.get("r-1").events()) if (type === "answer_asked") break;
  await ask("GET", "/runs", "/runs");
  await ask("GET", "/runs/{runId}/result", "/runs/r-1/result");
  await ask("GET", "/sessions/{session}", "/sessions/chat");
  const at = "/runs/r-1/calls/call-1-1";
  await ask("POST", "/runs/{runId}/calls/{callId}/approve", `${at}/approve`, {});
  await ask("POST", "/runs/{runId}/calls/{callId}/deny", "/runs/none/calls/x/deny", {});
  await ask("POST", "/runs/{runId}/input", "/runs/r-1/input", { input: "more" });
  await ask("POST", "/runs/{runId}/pause", "/runs/r-1/pause", { reason: "look" });
  await ask("GET", "/runs", "/runs");
  await ask("POST", "/runs/{runId}/resume", "/runs/r-1/resume", {});
  await ask("POST", "/fleet/pause", "/fleet/pause", { reason: "look" });
  await ask("GET", "/fleet", "/fleet");
  await ask("POST", "/fleet/resume", "/fleet/resume", {});
  await ask("POST", "/runs/{runId}/calls/{callId}/answer", `${at}/answer`, { value: "home" });
  await ask("GET", "/runs/{runId}/events", "/runs/r-1/events");
  const { eventSeq } = (await http.store.load("r-1")) ?? { eventSeq: 0 };
  await ask("GET", "/runs/{runId}/events", `/runs/r-1/events?after=${eventSeq}`);
  await ask("GET", "/runs/{runId}/events", "/runs/r-1/events?after=9999");
  await ask("GET", "/runs/{runId}/result", "/runs/r-1/result");
  for (const part of ["", "/transcript", "/turns", "/audit"])
    await ask("GET", `/runs/{runId}${part}`, `/runs/r-1${part}`);
  await ask("GET", "/runs/{runId}/calls/{callId}/result", `${at}/result`);
  await ask("GET", "/sessions/{session}/transcript", "/sessions/chat/transcript");
  await ask("POST", "/runs/{runId}/retry", "/runs/r-1/retry", {});
  await ask("POST", "/runs/{runId}/cancel", "/runs/r-1/cancel", {});
  await ask("DELETE", "/runs/{runId}", "/runs/r-1");
  const whole = ["/counts", "/agents", "/fleet", "/metrics", "/healthz", "/readyz", "/openapi.json"];
  for (const path of whole) await ask("GET", path, path);
  const described = operationsOf(document).map(({ method, path }) => `${method.toUpperCase()} ${path}`);
  expect([...asked].sort()).toEqual(described.sort());
});
