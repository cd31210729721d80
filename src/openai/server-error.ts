import { z } from "zod";

/** An error as a server told it, in whichever of its forms. */
export type ServerError = {
  /** Of the HTTP answer; undefined for an error inside a 200. */
  status?: number | undefined;
  code?: string | undefined;
  type?: string | undefined;
  param?: string | undefined;
  message: string;
  /** Of a request that was too long: the length of the server's context (llama.cpp tells it in a field of its own). */
  limitTokens?: number | undefined;
};

const longestMessage = 600;
const word = z.union([z.string(), z.number()]).transform(String).optional().catch(undefined);
const errorSchema = z.looseObject({
  code: word,
  type: word,
  param: word,
  message: word,
  n_ctx: z.int().positive().optional().catch(undefined),
});
const envelopeSchema = z.looseObject({ error: z.unknown().optional(), detail: z.unknown().optional() });

/** Reads the body of a refusal: OpenAI's form, a bare text, a list, FastAPI's `detail`, a page of HTML. */
export function readServerError(status: number | undefined, text: string): ServerError {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    const isPage = /^\s*</.test(text);
    const title = /<title>(.*?)<\/title>/is.exec(text)?.[1] ?? "a page of HTML";
    return { status, message: shorten(isPage ? title : text) };
  }
  const first: unknown = Array.isArray(body) ? body[0] : body;
  const envelope = envelopeSchema.safeParse(first);
  if (!envelope.success) return { status, message: shorten(text) };
  return toServerError(status, envelope.data.error ?? envelope.data.detail ?? envelope.data);
}

/** Reads one error object or text. */
export function toServerError(status: number | undefined, raw: unknown): ServerError {
  if (typeof raw === "string") return { status, message: shorten(raw) };
  const parsed = errorSchema.safeParse(raw);
  if (!parsed.success) return { status, message: shorten(JSON.stringify(raw) ?? "no message") };
  const { code, type, param, message, n_ctx: limitTokens } = parsed.data;
  const error: ServerError = { status, code, type, param, message: shorten(message ?? JSON.stringify(raw)) };
  return limitTokens === undefined ? error : { ...error, limitTokens };
}

function shorten(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > longestMessage ? `${line.slice(0, longestMessage)}…` : line || "no message";
}
