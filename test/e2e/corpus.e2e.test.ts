// Would catch a server or a model in the field that breaks a run: each case of test/corpus is one way in which that
// happened, run in both forms through worker processes on a real Redis.
import Table from "cli-table3";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { readCorpus } from "../support/corpus-cases.ts";
import { type Form, runCorpus, type Verdict } from "../support/corpus-fleet.ts";

const cases = readCorpus();
const forms: Form[] = ["stream", "whole"];
let verdicts: Verdict[] = [];

beforeAll(async () => {
  verdicts = await runCorpus(cases, { redisUrl: inject("redisUrl"), workers: 2, atOnce: 32 });
}, 180_000);

afterAll(() => {
  process.stdout.write(`${toTable(verdicts)}\n`);
});

test.each(cases.flatMap(({ id, summary }) => forms.map((form) => ({ id, form, summary }))))(
  "$id, $form: $summary",
  ({ id, form }) => {
    const verdict = verdicts.find((candidate) => candidate.kase.id === id && candidate.form === form);
    expect(verdict?.fails).toEqual([]);
  },
);

test("more than one process took part", () => {
  expect(new Set(verdicts.flatMap(({ pids }) => pids)).size).toBeGreaterThan(1);
});

/** Kinds and how many cases of each passed, in either form. */
function toTable(all: readonly Verdict[]): string {
  const table = new Table({ head: ["kind", ...forms], style: { head: [], border: [] } });
  const count = (some: readonly Verdict[]): string[] =>
    forms.map((form) => {
      const inForm = some.filter((verdict) => verdict.form === form);
      return `${inForm.filter(({ fails }) => fails.length === 0).length}/${inForm.length}`;
    });
  const kinds = [...new Set(all.map(({ kase }) => kase.kind))].sort();
  for (const kind of kinds) table.push([kind, ...count(all.filter(({ kase }) => kase.kind === kind))]);
  table.push(["all", ...count(all)]);
  return table.toString();
}
