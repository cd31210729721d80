import { afterEach, describe, expect, test, vi } from "vitest";
import { DroverError } from "../../src/core/errors.ts";
import { resolveEndpoint } from "../../src/openai/endpoint.ts";
import { openai } from "../../src/openai/openai.ts";

afterEach(() => vi.unstubAllEnvs());

describe("openai(...)", () => {
  test("is a plain value with its defaults", () => {
    const spec = openai({ model: "m", baseURL: "http://127.0.0.1:11434/v1" });
    expect(spec).toMatchObject({
      model: "m",
      provider: "openai",
      retry: { attempts: 4, delayMs: 1_000 },
      server: { address: "127.0.0.1", port: 11434 },
    });
    expect(openai({ model: "m", retry: { attempts: 1 } }).retry).toEqual({ attempts: 1, delayMs: 1_000 });
    expect(openai({ model: "m", provider: "mine" }).provider).toBe("mine");
    const rate = { max: 500, perMs: 60_000 };
    expect(openai({ model: "m", rate, concurrency: 50 }).limits).toEqual({ rate, concurrency: 50 });
  });

  test("an agent can be defined before there is a key; the call says that it is missing", async () => {
    vi.stubEnv("OPENAI_API_KEY", "");
    vi.stubEnv("OPENAI_BASE_URL", "");
    const spec = openai("gpt-5-mini");
    expect(spec.server).toEqual({ address: "api.openai.com", port: 443 });
    const outcome = await spec.client.call({
      runId: "run-a",
      turn: 1,
      attempt: 1,
      instructions: "",
      messages: [{ role: "user", content: "hi" }],
      tools: [],
      request: {},
      signal: new AbortController().signal,
      onText: () => {},
    });
    expect(outcome).toMatchObject({
      type: "failure",
      failure: { class: "permanent", code: "not_configured", message: expect.stringMatching(/Set OPENAI_API_KEY/) },
      usage: { inputTokens: 0, outputTokens: 0 },
    });
  });

  test("the environment is read when it is needed", () => {
    const spec = openai("m");
    vi.stubEnv("OPENAI_BASE_URL", "https://api.mistral.ai/v1");
    expect(spec.server).toEqual({ address: "api.mistral.ai", port: 443 });
    expect(spec.provider).toBe("mistral_ai");
  });

  test("all problems come in one error, which repeats no value", () => {
    const options = {
      model: "",
      baseURL: "ftp://x",
      apiKey: "",
      timeoutMs: 0,
      retry: { attempts: 0 },
      price: { inputPerMTok: -1 },
      colour: "sk-secret",
    };
    const attempt = (): unknown => openai(options as never);
    expect(attempt).toThrow(DroverError);
    expect(attempt).toThrow(
      /model.*baseURL.*apiKey.*timeoutMs.*retry\.attempts.*price\.inputPerMTok.*price\.outputPerMTok.*colour/s,
    );
    expect(attempt).not.toThrow(/sk-secret/);
  });
});

describe("where requests go", () => {
  test.each<[string, Parameters<typeof resolveEndpoint>, Partial<ReturnType<typeof resolveEndpoint>>]>([
    [
      "options first",
      [
        { baseURL: "http://a/v1", apiKey: "k1" },
        { OPENAI_BASE_URL: "http://b/v1", OPENAI_API_KEY: "k2" },
      ],
      { baseURL: "http://a/v1", apiKey: "k1", server: { address: "a", port: 80 } },
    ],
    [
      "then the environment",
      [{}, { OPENAI_BASE_URL: "http://b:81/v1", OPENAI_API_KEY: " k2 " }],
      { baseURL: "http://b:81/v1", apiKey: "k2", server: { address: "b", port: 81 } },
    ],
    [
      "a server of one's own needs no key",
      [{ baseURL: "http://[::1]:8080/v1" }, {}],
      { apiKey: undefined, server: { address: "::1", port: 8080 } },
    ],
    ["OpenAI itself does", [{}, {}], { problem: expect.stringMatching(/no API key/) as string }],
    [
      "an address that is none",
      [{}, { OPENAI_BASE_URL: "nonsense" }],
      { problem: expect.stringMatching(/OPENAI_BASE_URL is not/) as string },
    ],
    [
      "which does not matter when another is given",
      [{ baseURL: "http://a/v1" }, { OPENAI_BASE_URL: "nonsense" }],
      { baseURL: "http://a/v1" },
    ],
  ])("%s", (_, [options, environment], expected) => {
    expect(resolveEndpoint(options, environment)).toMatchObject(expected);
  });
});
