import { runStatuses } from "../../core/run.ts";
import type { RunFilter } from "../../ports.ts";

/** The fields of the list's filter as a person typed them; the page's address is made of them. */
export type RunsFields = {
  status: string;
  agent: string;
  session: string;
  metadata: string;
  since: string;
  until: string;
  id: string;
  cursor: string;
};
const fieldNames: readonly (keyof RunsFields)[] = [
  "status",
  "agent",
  "session",
  "metadata",
  "since",
  "until",
  "id",
  "cursor",
];

export type RunsQuery = { fields: RunsFields; filter: RunFilter; problems: string[] };

const pageSize = 50;
const longestField = 500;

/** Reads the filter from the page's address. What cannot be meant is left out and told. */
export function parseRunsQuery(params: URLSearchParams, now: number): RunsQuery {
  const read = (name: string): string => (params.get(name) ?? "").trim().slice(0, longestField);
  const fields = Object.fromEntries(fieldNames.map((name) => [name, read(name)])) as RunsFields;
  const problems: string[] = [];
  const told = <T>(name: string, value: T | null, expected: string): T | undefined => {
    if (value !== null) return value;
    problems.push(`${name}: expected ${expected}, got "${read(name)}".`);
    return undefined;
  };
  const { status, agent, session, metadata, since, until, id, cursor } = fields;
  const filter: RunFilter = {
    limit: pageSize,
    status: told("status", parseStatus(status), `one of ${runStatuses.join(", ")}`),
    agent: agent || undefined,
    session: session || undefined,
    metadata: told("metadata", parseMetadata(metadata), "key=value, several with commas between them"),
    createdAfter: told("since", parseTime(since, now), timeFormats),
    createdBefore: told("until", parseTime(until, now), timeFormats),
    search: id || undefined,
    cursor: cursor || undefined,
  };
  return { fields, filter, problems };
}

// Each of these gives undefined for an empty field and null for one that cannot be read.

function parseStatus(text: string): RunFilter["status"] | null {
  if (text === "") return undefined;
  return runStatuses.find((status) => status === text) ?? null;
}

function parseMetadata(text: string): Record<string, string> | undefined | null {
  if (text === "") return undefined;
  const pairs = text.split(",").map((pair) => /^\s*([^=]+?)\s*=\s*(.*?)\s*$/.exec(pair));
  if (pairs.includes(null)) return null;
  return Object.fromEntries(pairs.map((pair) => [pair?.[1] ?? "", pair?.[2] ?? ""]));
}

const timeFormats = "a time such as 2h, 3d, 2026-11-30 or 2026-11-30T08:00Z";
const unitMs: Record<string, number> = {
  s: 1_000,
  m: 60_000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

/** So long ago, or a moment; without a zone it is UTC. */
export function parseTime(text: string, now: number): number | undefined | null {
  if (text === "") return undefined;
  const relative = /^(\d{1,6})\s*(s|m|min|h|d|w)$/.exec(text);
  if (relative) return now - Number(relative[1]) * (unitMs[relative[2] ?? ""] ?? 0);
  if (!/^\d{4}-\d{2}-\d{2}/.test(text)) return null;
  const hasZone = /(Z|[+-]\d{2}:?\d{2})$/i.test(text);
  const at = Date.parse(hasZone || text.length <= 10 ? text : `${text.replace(" ", "T")}Z`);
  return Number.isNaN(at) ? null : at;
}
