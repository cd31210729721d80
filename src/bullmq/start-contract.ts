import { createHash } from "node:crypto";
import { z } from "zod";
import { defaultPayloadLimitBytes } from "../core/defaults.ts";
import { problemOfNesting } from "../core/nesting.ts";
import { runIdSchema, type StartPayload, startPayloadSchema } from "../core/new-run.ts";

/** Name of the only kind of job that the `runs` queue takes. */
const startJobName = "start";

/** A start job as read: a run to create, or a reason for the record that says why there is none. */
export type ParsedStart =
  | { runId: string; payload: StartPayload }
  | { rejected: { runId: string; agent: string | undefined; reason: string } };

/** The parts of a job that the contract is about. */
export type StartJob = { id?: string | undefined; name: string; data: unknown };

/**
 * Reads a job that any producer in any language may have put onto the `runs` queue. Never throws; everything that is
 * wrong with it is in `reason`, one sentence each: field, what was expected, what was received.
 * A job whose id is no run id is rejected under an id derived from it, so that the record can be listed.
 */
export function parseStart(job: StartJob, options: { maxPayloadBytes?: number | undefined } = {}): ParsedStart {
  const problems: string[] = [];
  if (job.name !== startJobName) problems.push(sentence("job name", `"${startJobName}"`, job.name));
  const runId = runIdSchema.safeParse(job.id);
  if (!runId.success) {
    problems.push(sentence("job id", "1 to 128 letters, digits, '-', '_' or '.', with a letter among them", job.id));
  }
  const data = readPayload(job.data, options.maxPayloadBytes ?? defaultPayloadLimitBytes);
  problems.push(...data.problems);
  if (runId.success && data.payload && problems.length === 0) return { runId: runId.data, payload: data.payload };
  return {
    rejected: {
      runId: runId.success ? runId.data : safeRunId(job.id),
      agent: readAgent(job.data),
      reason: problems.slice(0, mostProblems).join(" "),
    },
  };
}

const mostProblems = 10;

function readPayload(data: unknown, maxBytes: number): { payload?: StartPayload; problems: string[] } {
  const tooDeep = problemOfNesting(data);
  if (tooDeep) return { problems: [`data: ${tooDeep}.`] };
  const bytes = jsonBytes(data);
  if (bytes > maxBytes) {
    return { problems: [`data: expected at most ${maxBytes} bytes of JSON, received ${bytes} bytes.`] };
  }
  const parsed = startPayloadSchema.safeParse(data);
  if (parsed.success) return { payload: parsed.data, problems: [] };
  return { problems: parsed.error.issues.flatMap((issue) => toSentences(issue, data)) };
}

function jsonBytes(data: unknown): number {
  return Buffer.byteLength(JSON.stringify(data) ?? "", "utf8");
}

/** `job-<id>`, with what a run id may not hold replaced; then a hash keeps two such ids apart. */
function safeRunId(id: string | undefined): string {
  const given = id ?? "";
  const safe = given.replace(/[^A-Za-z0-9._-]/g, "-").slice(0, 100);
  if (safe === given && given !== "") return `job-${given}`;
  return `job-${safe}-${createHash("sha256").update(given).digest("hex").slice(0, 8)}`;
}

function readAgent(data: unknown): string | undefined {
  const parsed = z.object({ agent: z.string().min(1).max(128) }).safeParse(data);
  return parsed.success ? parsed.data.agent : undefined;
}

function sentence(field: string, expected: string, received: unknown): string {
  return `${field}: expected ${expected}, received ${show(received)}.`;
}

/** One sentence for an issue; a value that fits no member of a union gets those of the member it came nearest to. */
function toSentences(issue: z.core.$ZodIssue, data: unknown): string[] {
  const received = valueAt(data, issue.path);
  const field = fieldName(issue.path);
  if (issue.code === "invalid_union") {
    const deepest = nearest(issue.errors);
    if (deepest) {
      return deepest.flatMap((inner) => toSentences({ ...inner, path: [...issue.path, ...inner.path] }, data));
    }
    const expected = issue.errors.flatMap((errors) => errors.slice(0, 1).map(expectedOf));
    return [sentence(field, [...new Set(expected)].join(" or ") || withoutMust(issue), received)];
  }
  if (issue.code === "unrecognized_keys") {
    const keys = issue.keys.slice(0, 5).map((key) => show(key));
    return [`${field}: expected no unknown field, received ${keys.join(", ")}.`];
  }
  return [sentence(field, expectedOf(issue), received)];
}

function expectedOf(issue: z.core.$ZodIssue): string {
  if (issue.code === "invalid_type") return issue.expected;
  if (issue.code === "invalid_value") return issue.values.map((value) => show(value)).join(" or ");
  if (issue.code === "too_small") return `at least ${issue.minimum}${unitOf(issue.origin)}`;
  if (issue.code === "too_big") return `at most ${issue.maximum}${unitOf(issue.origin)}`;
  return withoutMust(issue);
}

function withoutMust({ message }: z.core.$ZodIssue): string {
  return message.replace(/^must be /, "");
}

function unitOf(origin: string): string {
  if (origin === "string") return " characters";
  return origin === "array" ? " items" : "";
}

/** The member of a union whose complaints lie deepest: the one the producer most likely meant. */
function nearest(errors: z.core.$ZodIssue[][]): z.core.$ZodIssue[] | undefined {
  const depth = (issues: z.core.$ZodIssue[]): number => Math.max(...issues.map((issue) => issue.path.length));
  const candidates = errors.filter((issues) => issues.length > 0 && depth(issues) > 0);
  return candidates.toSorted((a, b) => depth(b) - depth(a) || a.length - b.length)[0];
}

function fieldName(path: PropertyKey[]): string {
  return path.length === 0 ? "data" : path.map((part) => String(part).slice(0, 60)).join(".");
}

function valueAt(data: unknown, path: PropertyKey[]): unknown {
  let value = data;
  for (const part of path) {
    if (typeof value !== "object" || value === null) return undefined;
    value = (value as Record<PropertyKey, unknown>)[part];
  }
  return value;
}

const shownLength = 60;

/** A received value, short, on one line and without control characters; the contents of objects are not repeated. */
function show(value: unknown): string {
  if (value === undefined) return "nothing";
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === "object" && value !== null) return "an object";
  if (typeof value !== "string") return JSON.stringify(value) ?? typeof value;
  const text = value.length > shownLength ? `${value.slice(0, shownLength)}…` : value;
  return JSON.stringify(text);
}
