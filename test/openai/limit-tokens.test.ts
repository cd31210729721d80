// Catches: a server that says how much it takes and is not heard.
import { expect, test } from "vitest";
import { classifyError } from "../../src/openai/failure.ts";
import { readLimitTokens } from "../../src/openai/limit-tokens.ts";
import { readServerError } from "../../src/openai/server-error.ts";

test.each([
  ["This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.", 8192],
  ["This model's maximum context length is 128,000 tokens.", 128_000],
  ["prompt is too long: 210000 tokens > 200000 maximum", 200_000],
  ["The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1_048_576],
  ["Prompt contains 40000 tokens, too large for model with 32768 maximum context length", 32_768],
  ["requested tokens (4300) exceed context window of 4096", 4_096],
  ["This model's maximum context length is 128k tokens", 128_000],
  ["This model's context window is 32 768 tokens, you sent 40000", 32_768],
  ["the context window of 2 images is exceeded", undefined],
  ["maximum context 1.5 MB", undefined],
  ["the request exceeds the available context size, try increasing it", undefined],
])("reads %j", (message, tokens) => expect(readLimitTokens(message)).toBe(tokens));

test("an overflow carries the limit, also where a field of its own tells it", () => {
  const asked = { host: "h", model: "m" };
  const body = { error: { type: "exceed_context_size_error", message: "too long", n_ctx: 512, n_prompt_tokens: 900 } };
  const failure = classifyError(readServerError(400, JSON.stringify(body)), asked);
  expect(failure).toMatchObject({ class: "overflow", limitTokens: 512 });
  const other = classifyError(readServerError(401, '{"error":{"message":"bad key, n_ctx 4"}}'), asked);
  expect(other.limitTokens).toBeUndefined();
});
