import { expect, test } from "vitest";
import { parseRunsQuery, parseTime } from "../../../src/http/pages/runs-query.ts";

const now = Date.UTC(2026, 10, 30, 12);
const parse = (query: string): ReturnType<typeof parseRunsQuery> => parseRunsQuery(new URLSearchParams(query), now);

test("reads every field of the filter", () => {
  const { filter, problems } = parse(
    "status=failed&agent=a&session=s&metadata=k%3Dv, x = y z&since=2h&until=2026-11-30T11:30&id=tick&cursor=c",
  );
  expect(problems).toEqual([]);
  expect(filter).toEqual({
    limit: 50,
    status: "failed",
    agent: "a",
    session: "s",
    metadata: { k: "v", x: "y z" },
    createdAfter: now - 7_200_000,
    createdBefore: Date.UTC(2026, 10, 30, 11, 30),
    search: "tick",
    cursor: "c",
  });
});

test("tells what cannot be meant by the field's name, and leaves it out", () => {
  const { filter, problems } = parse("status=done&metadata=novalue&since=yesterday&until=2026-99-99");
  expect(problems.map((problem) => problem.split(":")[0])).toEqual(["status", "metadata", "since", "until"]);
  expect(problems[2]).toContain('"yesterday"');
  const { status, metadata, createdAfter, createdBefore } = filter;
  expect([status, metadata, createdAfter, createdBefore]).toEqual([undefined, undefined, undefined, undefined]);
});

test("what is empty filters by nothing", () => {
  expect(parse("status=&agent=&id=").filter).toEqual({ limit: 50 });
});

test.each([
  ["30s", now - 30_000],
  ["5 min", now - 300_000],
  ["1w", now - 604_800_000],
  ["2026-11-30", Date.UTC(2026, 10, 30)],
  ["2026-11-30 08:00", Date.UTC(2026, 10, 30, 8)],
  ["2026-11-30T08:00+02:00", Date.UTC(2026, 10, 30, 6)],
  ["", undefined],
  ["soon", null],
  ["5 years", null],
])("the time %j", (text, at) => {
  expect(parseTime(text, now)).toBe(at);
});
