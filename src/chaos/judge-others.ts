// What a run has to do with others: the runs that are its calls, and the people who talk to it.
import { isDeepStrictEqual } from "node:util";
import { isCut, type ToolMessage, textOf } from "../core/message.ts";
import { isEnded } from "../core/run.ts";
import type { Evidence, Finding, JudgedChild, JudgedRun } from "./evidence.ts";

/** The children of a run have ended like it, and what the model was told of each is what became of that. */
export function judgeChildren({ runId, messages, tools, children, feed }: Evidence): Finding[] {
  if (!children) return [];
  const found: Finding[] = [];
  const add = (kind: Finding["kind"], message: string): void => void found.push({ kind, runId, message });
  const byCall = Map.groupBy(children, ({ run }) => run.parent?.callId ?? "");
  for (const { run } of children) {
    if (!isEnded(run)) add("stuck", `it has ended and its child ${run.runId} is ${run.status}`);
  }
  for (const message of messages) {
    if (message.role !== "tool" || !tools.get(message.name)?.byAgent) continue;
    const { callId } = message;
    const hasEnded = feed.some((entry) => entry.type === "child_ended" && entry.callId === callId);
    const problem = problemOfChild(byCall.get(callId)?.[0], message, hasEnded);
    if (problem) add("effect", `${message.name} of ${callId}: ${problem}`);
  }
  return found;
}

/** @param hasEnded whether the call was settled by the child's end */
function problemOfChild(child: JudgedChild | undefined, message: ToolMessage, hasEnded: boolean): string | undefined {
  const { outcome, content } = message;
  if (outcome !== "ok") {
    return hasEnded && child?.run.status === "completed"
      ? `its child ${child.run.runId} completed and the model was told "${outcome}"`
      : undefined;
  }
  const told = "the model was told that it succeeded, and";
  if (!child) return `${told} no run of it is there`;
  if (child.run.status !== "completed") return `${told} its child is ${child.run.status}`;
  // What is too long for the model is cut.
  if (isCut(message) || child.answer === textOf(content)) return undefined;
  return "the model was told something else than its child says";
}

/** What a person sent is there once if it was taken, and not at all if it was refused; a retried run goes on from where it was. */
export function judgePeople({ runId, messages, input, before }: Evidence, run: JudgedRun): Finding[] {
  const found: Finding[] = [];
  if (input) {
    const isInput = ({ content }: { content: unknown }): boolean => content === input.text;
    const times = messages.filter((message) => message.role === "user" && isInput(message)).length;
    // An end that came first leaves it waiting; in a session that others have gone on with, a retried run repeats its input.
    const waiting = (run.pendingInput ?? []).filter((message) => message.role === "user" && isInput(message)).length;
    const most = 1 + (run.earlierParts?.length ?? 0);
    if (input.taken && times + waiting === 0)
      found.push({ kind: "lost", runId, message: "input that it took is gone" });
    if (times + waiting > (input.taken ? most : 0)) {
      const what = input.taken ? "was sent once" : "was refused";
      found.push({ kind: "duplicated", runId, message: `input that ${what} is there ${times + waiting} times` });
    }
  }
  if (before && !isDeepStrictEqual(messages.slice(0, before.length), before)) {
    found.push({ kind: "lost", runId, message: "what was said and done before it was retried is not there as it was" });
  }
  return found;
}
