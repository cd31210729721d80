import type { Appended } from "../core/change.ts";
import type { FeedEntry } from "../core/event.ts";
import type { ToolMessage } from "../core/message.ts";
import { owed } from "../core/owed.ts";
import { isEnded, type Run } from "../core/run.ts";
import { lineEntryOf, transcriptOf } from "../core/session.ts";
import { type Keys, listMember, type RunKeys } from "./keys.ts";
import { encodeEntry, encodeFeedEntry, encodeHead, encodeResult } from "./run-codec.ts";
import { compactReader } from "./run-schema.ts";

/** What one run of the commit script does. `previous` is null for a run that must not exist yet. */
export type CommitInput = {
  previous: Run | null;
  run: Run;
  append: Appended[];
  results: ToolMessage[];
  entries: FeedEntry[];
  /** Drops what the id held before: for a new run, and for one that takes the id of a rejected record. */
  fresh: boolean;
};

/** How long live text is kept after the end of its run. */
export const liveAfterEndMs = 600_000;

/** Keys and arguments of the commit script, as its header describes them. */
export function toCommitArguments(keys: Keys, input: CommitInput): { keys: string[]; args: (string | number)[] } {
  const { previous, run, append, results, entries, fresh } = input;
  const own = keys.run(run.runId);
  const head = encodeHead(fresh ? null : previous, run);
  const indexes = [...indexChanges(keys, input), ...lineChanges(keys, previous, run)];
  const live = liveExpiry(previous, run);
  const named = [own.head, messagesOf(keys, own, input), own.feed, keys.owing];
  if (live !== none || touchesResults(input)) named.push(own.results, own.live);
  const counts = `${entries.length} ${indexes.length} ${append.length} ${results.length} ${head.remove.length}`;
  const args: (string | number)[] = previous ? [previous.revision, previous.token] : ["", ""];
  args.push(run.token, own.channel, typeof live === "number" ? own.ended : "", `${headerOf(input, live)} ${counts}`);
  for (const entry of entries) args.push(encodeFeedEntry(entry));
  addIndexes(named, args, indexes);
  addContent(args, input);
  for (const field of head.remove) args.push(field);
  if (run.minReader < compactReader && indexes.some(([, action]) => action === "more"))
    args.push("counted", run.status);
  for (const [field, value] of head.set) args.push(field, value);
  if (fresh) named.push(own.outputs);
  return { keys: named, args };
}

/** The first words of the header: what the commit finds and leaves. */
function headerOf(input: CommitInput, live: string | number): string {
  const { run, entries, fresh } = input;
  const told = (entries[0]?.seq ?? 1) - 1;
  return `${run.revision} ${run.runId} ${lengthBefore(input)} ${told} ${owingSince(run)} ${live} ${fresh ? "fresh" : none}`;
}

/** A new run has its messages to itself: one that shares a transcript is made without any. */
function messagesOf(keys: Keys, own: RunKeys, { run, fresh }: CommitInput): string {
  const transcript = transcriptOf(run);
  return fresh || transcript === run.runId ? own.messages : keys.transcript(transcript);
}

/** An empty word of the header. */
const none = "-";

function touchesResults({ append, results, fresh }: CommitInput): boolean {
  return fresh || results.length > 0 || append.some(({ type }) => type === "result");
}

/** Names each key once, after those that are named already, and each change by the number of its key. */
function addIndexes(named: string[], args: (string | number)[], indexes: IndexChange[]): void {
  const first = named.length;
  for (const [key, ...change] of indexes) {
    if (!named.includes(key, first)) named.push(key);
    args.push(named.indexOf(key, first) + 1, ...change);
  }
}

/** Puts appended messages and early results at the end of a list that grows. */
function addContent(args: (string | number)[], { run, append, results }: CommitInput): void {
  for (const item of append) {
    args.push(item.type === "message" ? encodeEntry(run.token, item.message) : `=${item.callId}`);
  }
  for (const result of results) args.push(result.callId, encodeResult(result));
}

/**
 * How long the transcript must be. Not what the run knew before: a session's may have grown since. Only who appends to it
 * has to know it all.
 */
function lengthBefore({ run, append }: CommitInput): number | string {
  if (run.baseMessage !== undefined && append.length === 0) return none;
  return run.messageCount - append.length;
}

/** Since when the run owes something that could be done: not before the earliest of its steps may run. */
function owingSince(run: Run): number | string {
  let since: number | undefined;
  for (const { notBefore = 0 } of owed(run)) since = since === undefined ? notBefore : Math.min(since, notBefore);
  return since === undefined ? none : Math.max(run.updatedAt, since);
}

/** A number only when the run ends. */
function liveExpiry(previous: Run | null, run: Run): string | number {
  const was = previous !== null && isEnded(previous);
  if (isEnded(run)) return was ? none : liveAfterEndMs;
  return was ? "persist" : none;
}

/** A change of a set, a list or a count; see the header of the commit script. */
export type IndexChange = [
  key: string,
  action: "add" | "remove" | "end" | "push" | "drop" | "more" | "less" | "less_counted",
  member: string,
];

/** What takes a run out of every index that it is in. */
export function indexRemovals(keys: Keys, run: Run): IndexChange[] {
  const line = toLineMember(run);
  return [
    ...places(keys, run).map(([key, member]): IndexChange => [key, "remove", member]),
    ...countRemovals(keys, run),
    ...endRemovals(keys, run),
    ...(line && run.session !== undefined
      ? [[keys.session(run.session).line, "drop", line] satisfies IndexChange]
      : []),
  ];
}

/** How the run moves in its session's line. */
function lineChanges(keys: Keys, previous: Run | null, run: Run): IndexChange[] {
  if (run.session === undefined || previous?.place === run.place) return [];
  const { line } = keys.session(run.session);
  const [before, after] = [previous && toLineMember(previous), toLineMember(run)];
  if (before === after) return [];
  return [
    ...(before ? [[line, "drop", before] satisfies IndexChange] : []),
    ...(after ? [[line, "push", after] satisfies IndexChange] : []),
  ];
}

function toLineMember(run: Run): string | undefined {
  const entry = lineEntryOf(run);
  return entry && `${entry.round}:${entry.runId}`;
}

/** Which listing sets and counts change. None does as long as the status stays. */
function indexChanges(keys: Keys, { previous, run, fresh }: CommitInput): IndexChange[] {
  if (!fresh && previous?.status === run.status) return [];
  const before = previous ? places(keys, previous) : [];
  const after = places(keys, run);
  const has = (all: [string, string][], [key, member]: [string, string]): boolean =>
    all.some((other) => other[0] === key && other[1] === member);
  return [
    ...before.filter((place) => !has(after, place)).map(([key, member]): IndexChange => [key, "remove", member]),
    ...after.filter((place) => !has(before, place)).map(([key, member]): IndexChange => [key, "add", member]),
    ...(previous ? endRemovals(keys, previous) : []),
    ...endAdditions(keys, run),
    ...(previous ? countRemovals(keys, previous) : []),
    ...countKeys(keys, run).map((key): IndexChange => [key, "more", `${run.status} ${run.agent}`]),
  ];
}

function endRemovals(keys: Keys, run: Run): IndexChange[] {
  return isEnded(run) ? [[keys.ended(run.status), "remove", run.runId]] : [];
}

function endAdditions(keys: Keys, run: Run): IndexChange[] {
  return isEnded(run) ? [[keys.ended(run.status), "end", `${run.endedAt ?? run.updatedAt} ${run.runId}`]] : [];
}

/** The counts that a run is part of. */
function countKeys(keys: Keys, { tenant }: Run): string[] {
  return [keys.counts, ...(tenant === undefined ? [] : [keys.countsOfTenant(tenant)])];
}

function countRemovals(keys: Keys, run: Run): IndexChange[] {
  const { agent, status, minReader } = run;
  const [action, member] =
    minReader < compactReader ? (["less_counted", agent] as const) : (["less", `${status} ${agent}`] as const);
  return countKeys(keys, run).map((key) => [key, action, member]);
}

function places(keys: Keys, run: Run): [string, string][] {
  const member = listMember(run);
  return [
    ...(run.minReader < compactReader ? [[keys.listAll, member] as [string, string]] : []),
    [keys.listByStatus(run.status), member],
    [keys.listByAgent(run.agent), member],
    ...(run.session === undefined ? [] : [[keys.listBySession(run.session), member] as [string, string]]),
    ...(run.tenant === undefined ? [] : [[keys.listByTenant(run.tenant), member] as [string, string]]),
  ];
}
