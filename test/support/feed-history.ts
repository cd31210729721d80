import { setImmediate as turnOfLoop } from "node:timers/promises";
import fc from "fast-check";
import { append, type Draft, log, makeDraft } from "../../src/core/change.ts";
import type { RunFeedEvent } from "../../src/core/feed.ts";
import { noUsage, type Run } from "../../src/core/run.ts";
import type { RunStore } from "../../src/ports.ts";
import { created, nextToken, toolResult } from "../contract/run-fixtures.ts";

/** A turn as it comes about: executions that die or fail first, the answer in pieces, and results of its calls. */
export type HistoryTurn = {
  failed: { pieces: string[]; dies: boolean }[];
  answer: string[];
  results: string[];
  input: boolean;
};

export function historyOf(piece: fc.Arbitrary<string>): fc.Arbitrary<HistoryTurn[]> {
  const pieces = fc.array(piece, { maxLength: 5 });
  const turn = fc.record({
    failed: fc.array(fc.record({ pieces, dies: fc.boolean() }), { maxLength: 2 }),
    answer: pieces,
    results: fc.array(fc.string({ maxLength: 5 }), { maxLength: 3 }),
    input: fc.boolean(),
  });
  return fc.array(turn, { minLength: 1, maxLength: 6 });
}

/** Makes a run happen in a store, step by step, as workers do: text is published before its answer is committed. */
export async function play(
  store: RunStore,
  runId: string,
  turns: HistoryTurn[],
  fields: Partial<Run> = {},
): Promise<void> {
  let run = await created(store, { runId, ...fields });

  async function commit(change: (draft: Draft) => void, results: Draft["results"] = []): Promise<void> {
    const draft = makeDraft(run, { at: run.updatedAt + 1, token: nextToken() });
    change(draft);
    await store.commit({ ...draft, results });
    run = draft.run;
    await turnOfLoop();
  }

  async function say(turn: number, attempt: number, execution: string, pieces: string[]): Promise<void> {
    for (const text of pieces) {
      await store.publishLive(runId, [{ turn, attempt, execution, text }]);
      await turnOfLoop();
    }
  }

  await commit((draft) => log(draft, { type: "run_began", agentHash: "h" }));
  for (const [index, { failed, answer, results, input }] of turns.entries()) {
    const turn = index + 1;
    let attempt = 1;
    for (const [number, { pieces, dies }] of failed.entries()) {
      const execution = `${turn}a${number}`;
      await say(turn, attempt, execution, pieces);
      if (dies) continue;
      const error = { code: "x", message: "x" };
      const at = attempt;
      await commit((draft) => log(draft, { type: "model_failed", attempt: at, execution, error, nextAt: 1 }));
      attempt += 1;
    }
    const execution = `${turn}b`;
    const half = Math.ceil(answer.length / 2);
    await say(turn, attempt, execution, answer.slice(0, half));
    if (input) await commit((draft) => log(draft, { type: "input_received", count: 1, by: "ann" }));
    await say(turn, attempt, execution, answer.slice(half));
    const calls = results.map((_, place) => `call-${turn}-${place + 1}`);
    await commit((draft) => {
      draft.run.turns = turn;
      const message = append(draft, { role: "assistant", content: answer.join("") });
      const manifest = { agentHash: "h", messages: [], tools: [], dropped: [] };
      const fields = { attempt, execution, message, calls, usage: noUsage, finishReason: "stop", manifest };
      log(draft, { type: "model_answered", ...fields });
    });
    await settle(commit, calls, results);
  }
  await commit((draft) => {
    draft.run.status = "completed";
    draft.run.endedAt = draft.run.updatedAt;
    log(draft, { type: "run_ended", status: "completed", stopReason: "answered" });
  });
}

/** Results come early, one by one, and enter the transcript with the last. */
async function settle(
  commit: (change: (draft: Draft) => void, results?: Draft["results"]) => Promise<void>,
  calls: string[],
  results: string[],
): Promise<void> {
  const tool = "lookup";
  for (const [place, callId] of calls.entries()) {
    const last = place === calls.length - 1;
    const result = toolResult(callId, results[place] ?? "");
    await commit(
      (draft) => {
        const message = draft.run.messageCount + place;
        log(draft, { type: "tool_finished", callId, tool, attempt: 1, outcome: "ok", message });
        if (!last) return;
        for (const other of calls.slice(0, place)) draft.append.push({ type: "result", callId: other });
        draft.append.push({ type: "message", message: result });
        draft.run.messageCount += calls.length;
      },
      last ? [] : [result],
    );
  }
}

/** A feed without what depends on when it was read: how text was cut, and text that was found void. */
export function essenceOf(events: readonly RunFeedEvent[]): { entries: unknown[]; texts: Record<number, string> } {
  const entries: unknown[] = [];
  const texts: Record<number, string> = {};
  for (const event of events) {
    if (event.type === "text") texts[event.turn] = (texts[event.turn] ?? "") + event.text;
    else if (event.type === "text_superseded") delete texts[event.turn];
    else entries.push({ ...event, id: undefined });
  }
  return { entries, texts: Object.fromEntries(Object.entries(texts).filter(([, text]) => text !== "")) };
}
