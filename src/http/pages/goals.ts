import { textOf } from "../../core/message.ts";
import { goalOf, transcriptOf } from "../../core/session.ts";
import type { HttpDeps } from "../types.ts";

const mostKept = 5_000;
const shownChars = 200;

/** The first words of what a run was asked; undefined while it has no input. */
export type Goals = (run: { runId: string; createdAt: number }) => Promise<string | undefined>;

/** Reads them once per run: they never change. */
export function createGoals({ store, redactor }: Pick<HttpDeps, "store" | "redactor">): Goals {
  const known = new Map<string, string>();

  async function read(runId: string): Promise<string | undefined> {
    const run = await store.load(runId);
    const index = run ? goalOf(run) : undefined;
    if (!run || index === undefined) return undefined;
    const [message] = await store.readMessages(transcriptOf(run), index, index + 1);
    return message && toGoal(redactor.text(textOf(message.content)));
  }

  return async ({ runId, createdAt }) => {
    // A run that was deleted leaves its id to another one.
    const key = `${runId} ${createdAt}`;
    const kept = known.get(key);
    if (kept !== undefined) return kept;
    const goal = await read(runId);
    if (goal === undefined) return undefined;
    if (known.size >= mostKept) known.delete(known.keys().next().value ?? "");
    known.set(key, goal);
    return goal;
  };
}

function toGoal(text: string): string {
  const line = text
    .slice(0, 4 * shownChars)
    .replace(/\s+/g, " ")
    .trim();
  return line.length > shownChars ? `${line.slice(0, shownChars).toWellFormed()}…` : line;
}
