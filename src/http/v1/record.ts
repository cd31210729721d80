import { z } from "zod";
import { DroverError } from "../../core/errors.ts";
import type { ResponseRecord } from "../../ports.ts";
import type { Subject } from "./projection.ts";
import type { Echo } from "./wire.ts";

// What is kept of a request beside its run, in the record of its Response. Content in it is redacted: it is only shown.

/**
 * What a request does, decided once, so that the same request sent again does the same.
 * - `start`: a run of its own, in a session (a chat completion's has none); `goesOn`: one that begins with the same
 *   instructions;
 * - `branch`: a run in a new session that begins with what was said up to the end of the response `from`;
 * - `answer`: goes on with a run that waits for the caller.
 */
export type Plan =
  | { type: "start"; session?: string | undefined; goesOn?: true | undefined }
  | { type: "branch"; session: string; from: string }
  | { type: "answer" };

export type KeptRequest = {
  kind: "response" | "chat";
  /** Of the request's body. */
  hash: string;
  echo: Echo;
  /** Input items as they are listed. */
  items: Record<string, unknown>[];
  callerTools: string[];
  wantsJson: boolean;
  /** Of the instructions that its session begins with. */
  instructionsHash: string | null;
  plan: Plan;
  /** Named as its callers name it; null: the run has none. */
  session: string | null;
  /** Chat only: the last chunk tells the usage. */
  includeUsage?: boolean | undefined;
  /** Chat only: text goes out as it comes. */
  live?: boolean | undefined;
};

const keptSchema = z.looseObject({
  kind: z.enum(["response", "chat"]),
  hash: z.string(),
  echo: z.looseObject({ model: z.string() }),
  items: z.array(z.record(z.string(), z.unknown())),
  callerTools: z.array(z.string()),
  wantsJson: z.boolean(),
  instructionsHash: z.string().nullable(),
  plan: z.looseObject({ type: z.enum(["start", "branch", "answer"]) }),
  session: z.string().nullable(),
});

export type Kept = { record: ResponseRecord; request: KeptRequest };

/** @throws DroverError "unsupported" for a record of another version. */
export function readKept(record: ResponseRecord): Kept {
  const parsed = keptSchema.safeParse(record.request);
  if (parsed.success) return { record, request: parsed.data as unknown as KeptRequest };
  throw new DroverError(
    "unsupported",
    `Response "${record.id}" was kept by a version of Drover that this one cannot read.`,
  );
}

export function toSubject({ record, request }: Kept): Subject {
  const { id, runId, createdAt, afterSeq } = record;
  return {
    ...{ id, tail: tailOf(id), runId, createdAt, afterSeq },
    echo: request.echo,
    callerTools: new Set(request.callerTools),
    wantsJson: request.wantsJson,
  };
}

export const responsePrefix = "resp_";

/** The part of a response's id that the ids of its items repeat. */
export function tailOf(id: string): string {
  return id.replace(/^(?:resp_|chatcmpl-)/, "");
}
