import { expect } from "vitest";
import { z } from "zod";
import type { Message } from "../../src/core/message.ts";
import type { Run } from "../../src/core/run.ts";
import { defineAgent } from "../../src/define-agent.ts";
import type { RunStore } from "../../src/ports.ts";
import { scriptedModel } from "../../src/testing/index.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { problemsOf } from "../support/transcript.ts";

/** Looks at all runs of a session after each write, as an observer whom nothing escapes. */
export type Watch = {
  store: RunStore;
  /** Ids of the runs that entered the transcript, in order; a retried run comes again. */
  entered: string[];
};

/**
 * Throws in the test, by `broken`, once two runs are active, one is active that is not at the head of the line, or the
 * transcript is longer than what the active run knows.
 */
export function watchSession(store: RunStore, session: string, broken: (what: string) => void): Watch {
  const entered: string[] = [];
  let before: string[] = [];
  async function look(run: Run): Promise<void> {
    const { runs } = await store.list({ session, limit: 1_000 });
    const active = runs.filter(({ place }) => place?.state === "active");
    const { line, messageCount } = await store.readSession(session, 1_000);
    if (active.length > 1) broken(`active at once: ${active.map(({ runId }) => runId).join(", ")}`);
    const [only] = active;
    if (only && line[0]?.runId !== only.runId) broken(`${only.runId} is active behind ${line[0]?.runId}`);
    if (only && only.messageCount !== messageCount) broken(`${only.runId} does not know the whole transcript`);
    const now = line.map(({ runId, round }) => `${runId} ${round}`);
    if (new Set(line.map(({ runId }) => runId)).size !== line.length) broken(`in line twice: ${now.join(", ")}`);
    const stayed = before.filter((entry) => now.includes(entry));
    if (stayed.some((entry, index) => now[index] !== entry)) broken(`overtaken: ${before.join()} became ${now.join()}`);
    before = now;
    if (only && only.runId === run.runId && run.place?.round !== rounds.get(run.runId)) {
      rounds.set(run.runId, run.place?.round ?? 0);
      entered.push(run.runId);
    }
  }
  const rounds = new Map<string, number>();
  return {
    entered,
    store: {
      ...store,
      async create(run, messages, entries) {
        const result = await store.create(run, messages, entries);
        await look(run);
        return result;
      },
      async commit(change) {
        const result = await store.commit(change);
        if (result.committed) await look(change.run);
        return result;
      },
    },
  };
}

/** No turn of one run lies within another's, every call has its result, and the parts of all runs are the whole. */
export function expectWhole(messages: Message[], parts: [number, number][]): void {
  expect(problemsOf(messages)).toEqual([]);
  const sorted = parts.filter(([from, to]) => to > from).toSorted((a, b) => a[0] - b[0]);
  let at = 0;
  for (const [from, to] of sorted) {
    expect(from).toBe(at);
    at = to;
  }
  expect(at).toBe(messages.length);
}

/** An agent that notes a word and then says one answer after the other; its first turn fails for good while `fails`. */
export function makeTalker(options: {
  fails: (runId: string) => boolean;
  answers: number;
  effect: "read" | "write";
}): ReturnType<typeof defineAgent> {
  const { fails, answers, effect } = options;
  const broken = { class: "permanent" as const, code: "bad_key", message: "no such key" };
  const note = defineTool({
    name: "note",
    description: "Notes a word.",
    parameters: z.object({ word: z.string().describe("the word") }),
    effect,
    idempotent: true,
    execute: ({ word }) => `noted ${word}`,
  });
  const model = scriptedModel([
    ({ runId }) => ({
      text: `one of ${runId}`,
      toolCalls: [{ name: "note", arguments: { word: runId } }],
      ...(fails(runId) ? { fail: broken } : {}),
    }),
    ...Array.from(
      { length: answers },
      (_, turn) =>
        ({ runId }: { runId: string }) =>
          `${turn === 0 ? "two" : turn + 2} of ${runId}`,
    ),
  ]);
  return defineAgent({ name: "talker", instructions: "Talk.", model, tools: [note] });
}
