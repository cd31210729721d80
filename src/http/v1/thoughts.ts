import type { RunFeedEvent } from "../../core/feed.ts";

/** Marks around reasoning that leaks into the text, as models and servers write them. */
const marks: readonly (readonly [string, string])[] = [
  ["<think>", "</think>"],
  ["<thinking>", "</thinking>"],
  ["<thought>", "</thought>"],
  ["<reasoning>", "</reasoning>"],
  ["<seed:think>", "</seed:think>"],
  ["[THINK]", "[/THINK]"],
  ["◁think▷", "◁/think▷"],
  ["<|channel|>analysis<|message|>", "<|end|>"],
];

/**
 * Takes reasoning off the beginning of each execution's text. What may be the beginning of a mark is held back; if it turns
 * out to be all of the answer, the answer itself says so. What is given out of a text does not depend on its pieces.
 */
export function createThoughtFilter(): (event: RunFeedEvent) => RunFeedEvent[] {
  let execution = "";
  let held: string | undefined;
  return (event) => {
    if (event.type !== "text") return [event];
    if (event.execution !== execution) {
      execution = event.execution;
      held = "";
    }
    if (held === undefined) return [event];
    held += event.text;
    const said = afterThought(held);
    if (said === undefined) return [];
    held = undefined;
    return [{ ...event, text: said }];
  };
}

/** The text without reasoning at its beginning; undefined while it is not known where that ends. */
function afterThought(text: string): string | undefined {
  const begun = text.trimStart();
  if (begun === "") return undefined;
  const mark = marks.find(([from]) => begun.startsWith(from));
  if (!mark) return marks.some(([from]) => from.startsWith(begun)) ? undefined : text;
  const end = begun.indexOf(mark[1]);
  if (end === -1) return undefined;
  const rest = begun.slice(end + mark[1].length).trimStart();
  return rest === "" ? undefined : rest;
}
