import { z } from "zod";
import { runStatuses } from "../../core/run.ts";

const runId: z.ZodType<string> = z.string().min(1).max(200).describe("The run's id");

export const runIdParams: z.ZodType<{ runId: string }> = z.object({ runId });

export const callParams: z.ZodType<{ runId: string; callId: string }> = z.object({
  runId,
  callId: z.string().min(1).max(100).describe("The call's id, such as `call-2-1`"),
});

export const sessionParams: z.ZodType<{ session: string }> = z.object({
  session: z.string().min(1).max(200).describe("The session's id"),
});

/** An `Idempotency-Key` as IETF's draft has it, a quoted string, or the bare text that most clients send. */
export const idempotencyKeySchema: z.ZodType<string | undefined> = z
  .string()
  .max(202)
  .transform((given) => /^"(?<inner>.*)"$/.exec(given)?.groups?.inner ?? given)
  .pipe(z.string().regex(/^[\x21-\x7e]{1,200}$/, "must be 1 to 200 visible ASCII characters without spaces"))
  .optional()
  .meta({
    description:
      "Names this request, so that it can be sent again: a new random value per thing you want done (draft-ietf-httpapi-idempotency-key-header)",
    example: "8e03978e-40d5-43e8-bc93-6894a57f9324",
  });

export const idempotencyHeaders: z.ZodType<{ "idempotency-key"?: string | undefined }> = z.object({
  "idempotency-key": idempotencyKeySchema,
});

const traceparent = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** One that cannot be read is to be treated as none (W3C Trace Context, 3.2). */
export const traceparentSchema: z.ZodType<string | undefined> = z
  .string()
  .transform((given) => (traceparent.test(given) ? given : undefined))
  .optional()
  .meta({
    description: "W3C trace context: the run's spans go below the caller's",
    example: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  });

/** A whole number as a query brings it: digits and nothing else. */
export function numberParam(min: number, max: number, description: string): z.ZodType<number | undefined> {
  return z
    .string()
    .regex(/^\d{1,16}$/, `must be a whole number from ${min} to ${max}`)
    .transform(Number)
    .pipe(z.int().min(min).max(max))
    .optional()
    .meta({ description, type: "integer", minimum: min, maximum: max });
}

/** Which part of a list is asked for. */
export type PageQuery = { from?: number | undefined; limit?: number | undefined };
export function pageParams(what: string, mostAtOnce: number, usual: number): z.ZodType<PageQuery> {
  return z.strictObject({
    from: numberParam(0, Number.MAX_SAFE_INTEGER, `The first ${what}, from 0. Default 0`),
    limit: numberParam(1, mostAtOnce, `At most so many. Default ${usual}`),
  });
}

const timeParam = (description: string): z.ZodType<number | undefined> =>
  z
    .string()
    .transform((given) => (/^\d{1,15}$/.test(given) ? Number(given) : Date.parse(given)))
    .pipe(z.int({ error: "must be a time like 2026-01-31T12:00:00Z, or epoch ms" }))
    .optional()
    .meta({ description: `${description}: ISO 8601, or epoch ms`, type: "string" });

const metadataPrefix = "metadata.";

/** What `GET /runs` filters by. Fields of metadata are named `metadata.<field>`. */
export const listQuery: z.ZodType<ListQuery> = z
  .object({
    status: z.enum(runStatuses).optional().describe("Runs in this state"),
    agent: z.string().max(128).optional().describe("Runs of this agent"),
    session: z.string().max(128).optional().describe("Runs of this session"),
    since: timeParam("Created at or after this time"),
    until: timeParam("Created before this time"),
    search: z.string().max(128).optional().describe("Part of the run's id"),
    limit: numberParam(1, 1_000, "At most so many. Default 50"),
    cursor: z.string().max(400).optional().describe("From the page before"),
  })
  .catchall(z.string())
  .superRefine((query, context) => {
    for (const name of Object.keys(query)) {
      const known = name in listShape || (name.startsWith(metadataPrefix) && name.length > metadataPrefix.length);
      const message = `is none of ${Object.keys(listShape).join(", ")} and metadata.<field>`;
      if (!known) context.addIssue({ code: "custom", path: [name], message });
    }
  }) as unknown as z.ZodType<ListQuery>;

const listShape = { status: 1, agent: 1, session: 1, since: 1, until: 1, search: 1, limit: 1, cursor: 1 };

export type ListQuery = {
  status?: (typeof runStatuses)[number] | undefined;
  agent?: string | undefined;
  session?: string | undefined;
  since?: number | undefined;
  until?: number | undefined;
  search?: string | undefined;
  limit?: number | undefined;
  cursor?: string | undefined;
};

/** The fields of metadata that a query asks for; undefined if none. */
export function metadataOf(query: ListQuery): Record<string, string> | undefined {
  const fields = Object.entries(query).filter(([name]) => name.startsWith(metadataPrefix));
  if (fields.length === 0) return undefined;
  return Object.fromEntries(fields.map(([name, value]) => [name.slice(metadataPrefix.length), String(value)]));
}
