// Catches: a commit that writes again what never changes, or leaves the oldest reader of a run as it was.
import { expect, test } from "vitest";
import type { Run } from "../../src/core/run.ts";
import { toCommitArguments } from "../../src/redis/commit-plan.ts";
import { createKeys } from "../../src/redis/keys.ts";
import { decodeHead, encodeHead } from "../../src/redis/run-codec.ts";
import { newRun, openCall } from "../contract/run-fixtures.ts";

const tool = { name: "book", description: "x".repeat(10_000), parameters: { type: "object" } };
/** As the commit script sets them. */
const written = (previous: Run | null, run: Run): Record<string, string> => ({
  rev: String(run.revision),
  tok: run.token,
  ...Object.fromEntries(encodeHead(previous, run).set),
});
const stored = (run: Run): Record<string, string> => written(null, run);

test("a caller's tools are written once, whatever is committed after", () => {
  const created = newRun({ tools: [tool] });
  const fields = stored(created);
  const loaded = decodeHead(created.runId, fields);
  if (!loaded) throw new Error("nothing was read");
  expect(loaded.tools).toEqual([tool]);
  const next = { ...loaded, revision: 2, token: "t2", turns: 1 };
  const change = written(loaded, next);
  expect(Object.keys(change).sort()).toEqual(["head", "rev", "tok"]);
  expect(JSON.stringify(change).length).toBeLessThan(2_000);
  expect(decodeHead(created.runId, { ...fields, ...change })).toEqual(next);
});

test("a run that comes to wait for an answer is refused by older readers from that commit on", () => {
  const created = newRun({ minReader: 1, schemaVersion: 2 });
  const asked = openCall(1, { state: "answer", from: "person", askedAt: 5 });
  const next = { ...created, revision: 2, token: "t2", schemaVersion: 3, minReader: 3, calls: [asked] };
  const change = written(created, next);
  expect(change).toMatchObject({ v: "3", min: "3" });
  expect(decodeHead(created.runId, { ...stored(created), ...change })).toEqual(next);
});

test("calls, counts and listings of a run keep the form that its oldest reader knows", () => {
  const keys = createKeys();
  for (const [version, callId] of [
    [4, "call-1-1"],
    [5, undefined],
  ] as const) {
    const run = newRun({ minReader: version, schemaVersion: version, calls: [openCall(1)] });
    const fields = stored(run);
    expect(JSON.parse(fields["call:call-1-1"] ?? "")).toHaveProperty("state", "ready");
    expect(JSON.parse(fields["call:call-1-1"] ?? "").callId).toBe(callId);
    expect(decodeHead(run.runId, fields)).toEqual(run);
    const next = { ...run, status: "waiting" as const, revision: 2, token: "t2" };
    const input = { previous: run, run: next, append: [], results: [], entries: [], fresh: false };
    const { args } = toCommitArguments(keys, input);
    expect(args.includes("counted")).toBe(version === 4);
    expect(args.includes("less_counted")).toBe(version === 4);
    expect(args.includes("less")).toBe(version === 5);
    const creation = toCommitArguments(keys, { ...input, previous: null, run, fresh: true });
    expect(creation.keys.includes(keys.listAll)).toBe(version === 4);
  }
});
