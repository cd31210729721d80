import { z } from "zod";

/** Where a model's requests go. `problem` says what is missing, in a sentence for the user. */
export type Endpoint = {
  baseURL: string;
  apiKey?: string | undefined;
  server?: { address: string; port: number } | undefined;
  problem?: string | undefined;
};

const defaultBaseURL = "https://api.openai.com/v1";
const emptyIsUnset = (value: unknown): unknown => (value === "" ? undefined : value);
const environmentSchema = z.object({
  OPENAI_BASE_URL: z.preprocess(emptyIsUnset, z.url({ protocol: /^https?$/ }).optional()),
});

/** Options first, then the environment, then OpenAI's own address. */
export function resolveEndpoint(
  options: { baseURL?: string | undefined; apiKey?: string | undefined },
  environment: Record<string, string | undefined>,
): Endpoint {
  const parsed = environmentSchema.safeParse(environment);
  if (!parsed.success && options.baseURL === undefined) {
    return { baseURL: "", problem: "OPENAI_BASE_URL is not an http or https address. Correct it or unset it." };
  }
  const baseURL = options.baseURL ?? parsed.data?.OPENAI_BASE_URL ?? defaultBaseURL;
  const apiKey = options.apiKey ?? (environment.OPENAI_API_KEY?.trim() || undefined);
  const server = toServer(new URL(baseURL));
  if (apiKey !== undefined || server.address !== "api.openai.com") return { baseURL, apiKey, server };
  return {
    baseURL,
    server,
    problem:
      "There is no API key for api.openai.com. Set OPENAI_API_KEY, or set OPENAI_BASE_URL to a server that needs none.",
  };
}

function toServer({ hostname, port, protocol }: URL): { address: string; port: number } {
  const defaultPort = protocol === "http:" ? 80 : 443;
  return { address: hostname.replace(/^\[|\]$/g, ""), port: port === "" ? defaultPort : Number(port) };
}

const providersByHost: [RegExp, string][] = [
  [/(^|\.)openai\.azure\.com$/, "azure.ai.openai"],
  [/(^|\.)mistral\.ai$/, "mistral_ai"],
  [/(^|\.)deepseek\.com$/, "deepseek"],
  [/(^|\.)groq\.com$/, "groq"],
  [/(^|\.)x\.ai$/, "x_ai"],
  [/(^|\.)perplexity\.ai$/, "perplexity"],
  [/^generativelanguage\.googleapis\.com$/, "gcp.gemini"],
  [/(^|\.)anthropic\.com$/, "anthropic"],
  [/(^|\.)cohere\.(ai|com)$/, "cohere"],
];

/** Who serves a model, as far as the host tells; a server that merely speaks OpenAI's API counts as `openai`. */
export function toProvider(endpoint: Endpoint): string {
  const host = endpoint.server?.address ?? "";
  return providersByHost.find(([pattern]) => pattern.test(host))?.[1] ?? "openai";
}
