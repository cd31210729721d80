import { describe, expect, test } from "vitest";
import { classifyError, redact } from "../../src/openai/failure.ts";
import { readRetryAfter } from "../../src/openai/retry-after.ts";
import { readServerError, toServerError } from "../../src/openai/server-error.ts";

const asked = { host: "llm.example:443", model: "m-1" };

const openaiError = (fields: Record<string, unknown>): string =>
  JSON.stringify({ error: { message: "told", ...fields } });

describe("errors by code, then by status", () => {
  test.each<[string, number, string, string, string]>([
    ["bad key", 401, openaiError({ code: "invalid_api_key" }), "permanent", "unauthorized"],
    ["not allowed", 403, openaiError({}), "permanent", "forbidden"],
    ["unknown model", 404, openaiError({ code: "model_not_found" }), "permanent", "model_not_found"],
    ["unknown model behind a 400", 400, openaiError({ code: "model_not_found" }), "permanent", "model_not_found"],
    ["unknown path", 404, "404 page not found", "permanent", "model_not_found"],
    ["rate limit", 429, openaiError({ code: "rate_limit_exceeded", type: "requests" }), "transient", "rate_limited"],
    [
      "rate limit that speaks of tokens",
      429,
      openaiError({ message: "too many tokens per minute" }),
      "transient",
      "rate_limited",
    ],
    ["no quota", 429, openaiError({ code: "insufficient_quota" }), "permanent", "insufficient_quota"],
    ["no quota, by type", 429, openaiError({ type: "insufficient_quota" }), "permanent", "insufficient_quota"],
    ["payment required", 402, openaiError({}), "permanent", "insufficient_quota"],
    ["no balance", 400, openaiError({ message: "Insufficient Balance" }), "permanent", "insufficient_quota"],
    ["overflow, OpenAI", 400, openaiError({ code: "context_length_exceeded" }), "overflow", "context_overflow"],
    [
      "overflow, llama.cpp",
      400,
      openaiError({ code: 400, type: "exceed_context_size_error" }),
      "overflow",
      "context_overflow",
    ],
    [
      "overflow, vLLM",
      400,
      JSON.stringify({ object: "error", message: "This model's maximum context length is 4096 tokens." }),
      "overflow",
      "context_overflow",
    ],
    ["overflow, a proxy", 413, "Payload Too Large", "overflow", "context_overflow"],
    ["a malformed call", 400, openaiError({ code: "tool_use_failed" }), "transient", "tool_use_failed"],
    ["content filter", 400, openaiError({ code: "content_filter" }), "permanent", "content_filter"],
    ["bad request", 400, openaiError({ type: "invalid_request_error" }), "permanent", "invalid_request"],
    ["unprocessable", 422, JSON.stringify({ detail: [{ loc: ["body"], msg: "no" }] }), "permanent", "invalid_request"],
    ["a proxy's page", 502, "<!DOCTYPE html><html><title>Bad gateway</title></html>", "transient", "http_502"],
    ["still loading", 503, openaiError({ code: 503, type: "unavailable_error" }), "transient", "http_503"],
    [
      "a long request that is called a 500",
      500,
      openaiError({ message: "maximum context" }),
      "overflow",
      "context_overflow",
    ],
    ["not implemented", 501, "", "permanent", "invalid_request"],
    ["request timeout", 408, "", "transient", "http_408"],
    ["conflict", 409, "", "transient", "http_409"],
  ])("%s", (...[, status, body, kind, code]) => {
    expect(classifyError(readServerError(status, body), asked)).toMatchObject({ class: kind, code, status });
  });

  test.each<[string, unknown, string, string]>([
    ["a status as code", { code: 502, message: "Provider returned error" }, "transient", "server_error"],
    ["a status as text", { code: "429", message: "slow down" }, "transient", "rate_limited"],
    ["a refused key", { code: 401, message: "no" }, "permanent", "unauthorized"],
    ["a refused request", { type: "invalid_request_error", message: "no" }, "permanent", "invalid_request"],
    ["overflow", { message: "prompt is too long: 9 > 8" }, "overflow", "context_overflow"],
    ["a bare text", "overloaded", "transient", "server_error"],
    ["nothing to go by", {}, "transient", "server_error"],
    ["a number", 7, "transient", "server_error"],
  ])("inside a 200: %s", (_, error, kind, code) => {
    const failure = classifyError(toServerError(undefined, error), asked);
    expect(failure).toMatchObject({ class: kind, code });
    expect(failure).not.toHaveProperty("status");
  });
});

describe("messages say what to do", () => {
  const messageOf = (status: number, body: string): string =>
    classifyError(readServerError(status, body), asked).message;

  test("a refused key: where, and what to set; not what the server said", () => {
    const message = messageOf(401, openaiError({ message: "Incorrect API key provided: abc-secret" }));
    expect(message).toMatch(/llm\.example:443 refused the API key \(401\)\. Set OPENAI_API_KEY/);
    expect(message).not.toContain("abc-secret");
  });

  test("an unknown model: which", () => {
    expect(messageOf(404, openaiError({}))).toMatch(/does not know the model "m-1".*base URL.*told/);
  });

  test("quota and context are called by their names", () => {
    expect(messageOf(429, openaiError({ code: "insufficient_quota" }))).toMatch(/no quota left.*billing/);
    expect(messageOf(400, openaiError({ code: "context_length_exceeded" }))).toMatch(/longer than the context of m-1/);
  });

  test("a page of HTML is told by its title, a long text by its beginning", () => {
    expect(messageOf(502, "<html><title>Bad\n gateway</title>")).toMatch(/Bad gateway$/);
    expect(messageOf(502, "<html>")).toMatch(/a page of HTML$/);
    expect(messageOf(500, "x".repeat(5_000)).length).toBeLessThan(800);
    expect(messageOf(500, "")).toMatch(/no message$/);
  });

  test("bodies in other forms are read", () => {
    expect(readServerError(400, '{"error":"bare text"}')).toMatchObject({ message: "bare text" });
    expect(readServerError(400, '[{"error":{"message":"in a list","code":400}}]')).toMatchObject({
      message: "in a list",
      code: "400",
    });
    expect(readServerError(400, '{"message":"flat","type":"t","param":"p"}')).toMatchObject({
      message: "flat",
      type: "t",
      param: "p",
    });
    expect(readServerError(400, '"text"')).toMatchObject({ message: '"text"' });
  });
});

test.each<[Record<string, string>, number | undefined]>([
  [{}, undefined],
  [{ "retry-after": "3" }, 3_000],
  [{ "retry-after": "0.5" }, 500],
  [{ "retry-after": " 2 " }, 2_000],
  [{ "retry-after": new Date(Date.UTC(2026, 0, 1, 0, 0, 5)).toUTCString() }, 5_000],
  [{ "retry-after": new Date(Date.UTC(2025, 0, 1)).toUTCString() }, 0],
  [{ "retry-after": "soon" }, undefined],
  [{ "retry-after-ms": "250", "retry-after": "9" }, 250],
  [{ "retry-after-ms": "x", "retry-after": "9" }, 9_000],
  [{ "retry-after-ms": "-5" }, undefined],
  [{ "retry-after": "99999999999" }, 30 * 24 * 3_600_000],
])("Retry-After of %j is %j ms", (headers, waitMs) => {
  expect(readRetryAfter(new Headers(headers), Date.UTC(2026, 0, 1))).toBe(waitMs);
});

test("secrets are taken out", () => {
  expect(redact("key my-secret and sk-abcdefgh1234, not a", ["my-secret", "a", undefined])).toBe(
    "key [redacted] and [redacted], not a",
  );
});
