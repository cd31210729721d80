import { z } from "zod";

export const runIdParams: z.ZodType<{ runId: string }> = z.object({
  runId: z.string().min(1).max(200).describe("The run's id"),
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

export const traceparentSchema: z.ZodType<string | undefined> = z
  .string()
  // One that cannot be read is to be treated as none (W3C Trace Context, 3.2).
  .transform((given) => (/^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/.test(given) ? given : undefined))
  .optional()
  .meta({
    description: "W3C trace context: the run's spans go below the caller's",
    example: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  });
