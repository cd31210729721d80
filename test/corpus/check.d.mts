import type { CorpusRecord } from "./serve.mjs";

export type CorpusRun = {
  outcome: "completed" | "failed" | "waiting";
  executed: { name: string; args: unknown }[];
  finalText: string;
  error: string;
};

/** Judges one run of a case by the requests it made and by what came of it. */
export function judge(
  kase: object,
  records: readonly CorpusRecord[],
  result: CorpusRun,
): { pass: boolean; fails: string[]; notes: string[] };
