import { z } from "zod";
import { DroverError } from "./errors.ts";
import { runIdSchema } from "./new-run.ts";
import { type Run, type RunStatus, runStatuses } from "./run.ts";

export type RunFilter = {
  status?: RunStatus | undefined;
  agent?: string | undefined;
  session?: string | undefined;
  /** One tenant's runs; undefined: everybody's. */
  tenant?: string | undefined;
  /** Text metadata fields that must have these values. */
  metadata?: Record<string, string> | undefined;
  /** Created at or after, and before these times, epoch ms. */
  createdAfter?: number | undefined;
  createdBefore?: number | undefined;
  /** Part of the run's id. The run that has it as its whole id comes first, however old it is. */
  search?: string | undefined;
  /** At most 1,000 (more counts as that); default 50. */
  limit?: number | undefined;
  /** From the previous page. */
  cursor?: string | undefined;
};

const placePattern = /^\d{15}:[A-Za-z0-9._-]{1,128}$/;
const time = z.int().min(0).max(999_999_999_999_999);
const mostMetadataFields = 20;

/** Strict: a misspelt field would list what it was meant to leave out. */
const filterFields = {
  status: z.enum(runStatuses).optional(),
  agent: z.string().max(1_000).optional(),
  session: z.string().max(1_000).optional(),
  tenant: runIdSchema.optional(),
  metadata: z
    .unknown()
    // A record would leave it out, and the filter would fit everything.
    .refine((fields) => !Object.hasOwn(Object(fields), "__proto__"), "no run has a field __proto__")
    .pipe(z.record(z.string(), z.string()))
    .refine((fields) => Object.keys(fields).length <= mostMetadataFields, `at most ${mostMetadataFields} fields`)
    .optional(),
  createdAfter: time.optional(),
  createdBefore: time.optional(),
  search: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,128}$/, "expected part of a run's id: 1 to 128 letters, digits, '-', '_' or '.'")
    .optional(),
  limit: z.int().min(1).optional(),
  cursor: z.string().regex(placePattern, "this is none of ours; pass one from the previous page, or none").optional(),
};
const filterSchema = z.strictObject(filterFields);
const countSchema = z.strictObject({ tenant: filterFields.tenant, agent: filterFields.agent });

const defaultLimit = 50;
const mostListed = 1_000;

/**
 * A filter that fits, and how many runs a page of it has at most.
 *
 * @throws DroverError "invalid", naming every field that does not fit.
 */
export function parseRunFilter(given: RunFilter): RunFilter & { limit: number } {
  const filter = parse(filterSchema, given);
  return { ...filter, limit: Math.min(filter.limit ?? defaultLimit, mostListed) };
}

/** @throws DroverError "invalid", naming every field that does not fit. */
export function parseCountFilter(given: Pick<RunFilter, "tenant" | "agent">): Pick<RunFilter, "tenant" | "agent"> {
  return parse(countSchema, given);
}

function parse<T>(schema: z.ZodType<T>, given: unknown): T {
  const { success, data, error } = schema.safeParse(given);
  if (success) return data;
  const problems = error.issues.map(({ path, message }) => `${path.join(".") || "filter"}: ${message}`);
  throw new DroverError("invalid", `This filter of runs cannot be used: ${problems.join("; ")}.`);
}

/** What of a run a filter looks at. */
type Sought = Pick<Run, "runId" | "status" | "agent" | "session" | "tenant" | "metadata" | "createdAt">;

/** Whether a run is among those that a filter lists; limit and cursor are no part of that. */
export function fitsFilter(run: Sought, filter: RunFilter): boolean {
  const { createdAfter = 0, createdBefore = Number.POSITIVE_INFINITY, search = "", metadata = {} } = filter;
  const isSame = (["status", "agent", "session", "tenant"] as const).every(
    (field) => filter[field] === undefined || run[field] === filter[field],
  );
  return (
    isSame &&
    run.createdAt >= createdAfter &&
    run.createdAt < createdBefore &&
    run.runId.includes(search) &&
    Object.entries(metadata).every(([name, value]) => Object.hasOwn(run.metadata, name) && run.metadata[name] === value)
  );
}

/** A run's place in the order of creation, in which pages are given from the newest on: a page's cursor is one. */
export function placeOf({ runId, createdAt }: Pick<Run, "runId" | "createdAt">): string {
  return `${String(Math.trunc(createdAt)).padStart(15, "0")}:${runId}`;
}

/** Whether a text is a place. What else lies among places was put there by another program. */
export function isPlace(text: string): boolean {
  return placePattern.test(text);
}

/** A cursor before the newest run. */
export const newestPlace: string = `${"9".repeat(15)}:z`;
