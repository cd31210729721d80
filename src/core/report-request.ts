// What the model was sent, rendered again from a manifest (invariant 6).

import type { AgentDefinition, ToolSpec } from "./agent.ts";
import type { FeedEntry, Manifest } from "./event.ts";
import type { Message } from "./message.ts";
import type { RequestView } from "./report.ts";
import type { Run } from "./run.ts";
import { ownParts } from "./session.ts";
import type { WindowPlan } from "./window.ts";
import { renderWindow } from "./window-render.ts";

type Answered = Extract<FeedEntry, { type: "model_answered" }>;
type Summarised = Extract<FeedEntry, { type: "summarised" }>;

/** A request as it is stored: by reference. `summary`: the one that its manifest names. */
export type StoredRequest = {
  answered: Answered;
  definition: AgentDefinition;
  summary?: Summarised | undefined;
};

/** What was sent, without the content. */
export function overviewOf({ answered, definition, summary }: StoredRequest): RequestView {
  const { manifest, message: kept } = answered;
  const { name, model, provider, version } = definition;
  return {
    agent: { name, model, provider, ...(version === undefined ? {} : { version }) },
    kept,
    leftOut: leftOutOf(planOf(manifest), kept),
    ...(summary === undefined ? {} : { summarisedUpTo: summary.upTo }),
    dropped: manifest.dropped ?? [],
    offered: manifest.tools,
  };
}

export type RequestContent = {
  /** By transcript index; those that the manifest names must be there. */
  messages: readonly Message[];
  goal: number | undefined;
  /** The first so many tokens of a text, as the agent's model counts. */
  cutText: (text: string, tokens: number) => string;
  /** Tools that agents are offered beside their own. */
  builtIn: readonly ToolSpec[];
};

/** What was sent, with instructions, messages, tools and parameters. */
export function wholeRequestOf(stored: StoredRequest, { builtIn, ...content }: RequestContent): RequestView {
  const { manifest } = stored.answered;
  const { instructions, tools, output, request } = stored.definition;
  const dropped = new Set(manifest.dropped);
  const offered = new Set(manifest.tools);
  return {
    ...overviewOf(stored),
    instructions,
    messages: renderWindow(planOf(manifest), { ...content, summaryText: stored.summary?.text }),
    tools: [...tools, ...builtIn].filter(({ name }) => offered.delete(name)),
    ...(output === undefined ? {} : { output }),
    request: Object.fromEntries(Object.entries(request).filter(([name]) => !dropped.has(name))),
  };
}

function planOf({ messages, window }: Manifest): WindowPlan {
  return { messages, ...window };
}

/** Transcript ranges that the rendering of a manifest needs. */
export function rangesOf({ messages, window }: Manifest): [number, number][] {
  const goal = window?.goal;
  return goal === undefined ? messages : [[goal, goal + 1], ...messages];
}

/**
 * Whether its rendering cuts texts, for which the model's own way of counting is needed. `budgeted`: whether there was
 * a budget; without one a restated goal is cut by its length alone.
 */
export function cutsText({ window }: Manifest, budgeted: boolean): boolean {
  if (window === undefined) return false;
  return window.cuts !== undefined || window.summaryTokens !== undefined || (budgeted && remindsIn({ window }));
}

/** Whether the goal is restated in it. */
export function remindsIn({ window }: Pick<Manifest, "window">): boolean {
  return window?.reminders !== undefined;
}

/** The index of what a run was asked to do, as it was when the message at `index` was appended. */
export function goalAt(run: Run, index: number): number | undefined {
  const { inputCount = 0 } = run;
  const part = ownParts(run).findLast(([from]) => from <= index);
  return part && inputCount > 0 ? part[0] + inputCount - 1 : undefined;
}

function leftOutOf({ messages, goal }: WindowPlan, kept: number): [number, number][] {
  const sent = goal === undefined ? messages : [...messages, [goal, goal + 1] as const];
  const left: [number, number][] = [];
  let at = 0;
  for (const [from, to] of sent.toSorted((a, b) => a[0] - b[0])) {
    if (from > at) left.push([at, from]);
    at = Math.max(at, to);
  }
  if (kept > at) left.push([at, kept]);
  return left;
}
