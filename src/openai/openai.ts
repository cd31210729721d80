import { z } from "zod";
import { type RateLimit, rateSchema } from "../core/agent.ts";
import { DroverError } from "../core/errors.ts";
import type { ModelSpec } from "../ports.ts";
import { type Endpoint, resolveEndpoint, toProvider } from "./endpoint.ts";
import { type Accepted, acceptable, createModelClient } from "./model-client.ts";
import type { Price } from "./usage.ts";

export type OpenAIOptions = {
  model: string;
  /** Default: `OPENAI_BASE_URL`, else OpenAI's own. */
  baseURL?: string | undefined;
  /** Default: `OPENAI_API_KEY`. A server of your own may need none. */
  apiKey?: string | undefined;
  /** Whether to ask for server-sent events; default true. Without them no text is seen before its end. */
  stream?: boolean | undefined;
  /** Limit of a whole call, default 120,000. Node itself gives up after 300,000 ms without a byte. */
  timeoutMs?: number | undefined;
  /** Limit between two data events of a stream, default 30,000; comments do not count. */
  idleTimeoutMs?: number | undefined;
  /** Default 4 attempts, the first wait 1,000 ms. */
  retry?: { attempts?: number | undefined; delayMs?: number | undefined } | undefined;
  /** Sent with each request. */
  headers?: Record<string, string> | undefined;
  /** Without it the cost of a run is not known, and a cost limit cannot hold. */
  price?: Price | undefined;
  /**
   * Kinds of content the model takes; the others are described to it in text. Default: everything is sent, and what the
   * server refuses is described from then on.
   */
  accepts?: readonly Accepted[] | undefined;
  /** So many calls of this model of this server over all workers; a step that must wait holds none of them. */
  rate?: RateLimit | undefined;
  /** So many calls at once, over all workers. */
  concurrency?: number | undefined;
  /** Default: told from the host. */
  provider?: string | undefined;
};

const durationSchema = z
  .int()
  .min(1)
  .max(24 * 3_600_000);
const moneySchema = z.number().nonnegative();
const optionsSchema = z.strictObject({
  model: z.string().min(1),
  baseURL: z.url({ protocol: /^https?$/ }).optional(),
  apiKey: z.string().min(1).optional(),
  stream: z.boolean().default(true),
  timeoutMs: durationSchema.default(120_000),
  idleTimeoutMs: durationSchema.default(30_000),
  retry: z
    .strictObject({
      attempts: z.int().min(1).max(100).default(4),
      delayMs: z.int().min(0).max(3_600_000).default(1_000),
    })
    .prefault({}),
  headers: z.record(z.string().min(1), z.string()).default({}),
  price: z
    .strictObject({ inputPerMTok: moneySchema, outputPerMTok: moneySchema, cachedPerMTok: moneySchema.optional() })
    .optional(),
  accepts: z.array(z.enum(acceptable)).min(1).optional(),
  rate: rateSchema.optional(),
  concurrency: z.int().min(1).max(1_000_000).optional(),
  provider: z.string().min(1).optional(),
});

/**
 * A model behind the OpenAI Chat Completions API, at OpenAI or at any server that speaks it. Given a name alone, the
 * rest comes from `OPENAI_API_KEY` and `OPENAI_BASE_URL`, read when they are first needed.
 *
 * @throws DroverError "invalid", naming every option that is wrong.
 */
export function openai(model: string | OpenAIOptions): ModelSpec {
  const parsed = optionsSchema.safeParse(typeof model === "string" ? { model } : model);
  if (!parsed.success) {
    // Values are left out: one of them may be a key.
    const problems = parsed.error.issues.map((issue) => `${issue.path.join(".") || "options"}: ${issue.message}`);
    throw new DroverError("invalid", `openai(...) was given options that do not fit: ${problems.join("; ")}.`);
  }
  const options = parsed.data;
  const endpoint = (): Endpoint => resolveEndpoint(options, process.env);
  return {
    model: options.model,
    get provider(): string {
      return options.provider ?? toProvider(endpoint());
    },
    retry: options.retry,
    limits: { rate: options.rate, concurrency: options.concurrency },
    get server(): { address: string; port: number } | undefined {
      return endpoint().server;
    },
    get secrets(): readonly string[] {
      const { apiKey, baseURL } = endpoint();
      return [apiKey, URL.parse(baseURL)?.password, ...Object.values(options.headers)].flatMap((value) => value || []);
    },
    client: createModelClient({ ...options, endpoint }),
  };
}
