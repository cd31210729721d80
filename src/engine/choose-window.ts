import { type AgentDefinition, stricter } from "../core/agent.ts";
import type { Message } from "../core/message.ts";
import type { Run } from "../core/run.ts";
import { goalOf } from "../core/session.ts";
import { longestSummary, summaryRequest } from "../core/summary.ts";
import type { WindowPlan, WindowSettings } from "../core/window.ts";
import { planWindow } from "../core/window-plan.ts";
import { renderWindow } from "../core/window-render.ts";
import type { AgentCode, ModelFailure, TokenCounter } from "../ports.ts";
import type { WindowMemo } from "./known-runs.ts";
import type { TurnStep } from "./turn-step.ts";

/** What is sent of a transcript, and about how many tokens the whole request takes; 0 if nobody needs to know. */
export type Window = { plan: WindowPlan; messages: Message[]; tokens: number };

export type Chosen =
  | ({ type: "window" } & Window)
  | { type: "summarise"; upTo: number }
  | { type: "too_small"; smallestTokens: number };

type Given = {
  run: Run;
  agent: AgentCode;
  messages: Message[];
  nudge: string | undefined;
  memo?: WindowMemo | undefined;
};

/** Makes the window of a turn. Without a budget nothing is counted. */
export async function chooseWindow({ run, agent, messages, nudge, memo }: Given): Promise<Chosen> {
  const settings = settingsOf(run, agent);
  const counter = settings.budgetTokens === undefined ? undefined : await agent.tokens();
  const goal = goalOf(run);
  const chosen = planWindow({
    messages,
    goal,
    settings,
    fixedTokens: counter ? fixedTokens(agent.definition, counter, settings) + countTools(run.tools, counter) : 0,
    count: (text) => counter?.count(text) ?? 0,
    countMessage: counter ? memoised(counter) : () => 0,
    summary: run.summary,
    nudge,
    memo,
  });
  if (chosen.type === "too_small")
    return { ...chosen, smallestTokens: smallestBudget(agent.definition, settings, chosen) };
  if (chosen.type !== "window") return chosen;
  const { plan, tokens } = chosen;
  const cutText = (text: string, limit: number): string => counter?.cut(text, limit) ?? text;
  const summaryText = plan.summary === undefined ? undefined : run.summary?.text;
  const rendered = renderWindow(plan, { messages, goal, summaryText, cutText }, memo);
  return { type: "window", plan, tokens, messages: rendered };
}

/** The agent's settings, within what the model's server was found to take. */
function settingsOf({ windowBudget }: Run, { window }: AgentCode): WindowSettings {
  return { ...window, budgetTokens: stricter(window.budgetTokens, windowBudget) };
}

/** What an answer may take when the request does not say. */
const defaultReserveTokens = 4_096;

/** Tokens that every request of an agent takes beside its messages: instructions, tools, output, room for the answer. */
function fixedTokens(definition: AgentDefinition, counter: TokenCounter, { budgetTokens = 0 }: WindowSettings): number {
  return countDefinition(definition, counter) + reserveOf(definition, budgetTokens);
}

/** Room for the answer: what the request allows it, or a quarter of the budget. */
function reserveOf({ request }: AgentDefinition, budgetTokens: number): number {
  const { max_tokens, max_completion_tokens } = request;
  const asked = [max_completion_tokens, max_tokens].find((value) => typeof value === "number");
  return Number(asked ?? Math.min(defaultReserveTokens, Math.floor(budgetTokens / 4)));
}

/** The smallest budget that would do: with it the room for the answer grows too. */
function smallestBudget(
  definition: AgentDefinition,
  { budgetTokens = 0 }: WindowSettings,
  { smallestTokens }: { smallestTokens: number },
): number {
  const beside = smallestTokens - reserveOf(definition, budgetTokens);
  let smallest = smallestTokens;
  while (smallest < beside + reserveOf(definition, smallest)) smallest = beside + reserveOf(definition, smallest);
  return smallest;
}

const definitions = new WeakMap<AgentDefinition, number>();
const messageOverhead = 8;

function countDefinition(definition: AgentDefinition, counter: TokenCounter): number {
  const known = definitions.get(definition);
  if (known !== undefined) return known;
  const { instructions, tools, output } = definition;
  const texts = [instructions, ...tools.map((tool) => JSON.stringify(tool)), output ? JSON.stringify(output) : ""];
  const tokens = texts.reduce((sum, text) => sum + counter.count(text) + messageOverhead, 0);
  definitions.set(definition, tokens);
  return tokens;
}

/** Tokens of the tools that the run's caller brought. */
function countTools(tools: Run["tools"], counter: TokenCounter): number {
  if (!tools) return 0;
  const known = toolTokens.get(tools);
  if (known !== undefined) return known;
  const tokens = tools.reduce((sum, tool) => sum + counter.count(JSON.stringify(tool)) + messageOverhead, 0);
  toolTokens.set(tools, tokens);
  return tokens;
}

const toolTokens = new WeakMap<NonNullable<Run["tools"]>, number>();

const counted = new WeakMap<TokenCounter, WeakMap<Message, number>>();

/** Each message is counted once while a cache holds it. */
function memoised(counter: TokenCounter): (message: Message) => number {
  const own = counted.get(counter) ?? new WeakMap<Message, number>();
  counted.set(counter, own);
  return (message) => {
    const known = own.get(message) ?? counter.countMessage(message);
    own.set(message, known);
    return known;
  };
}

/** Of a refused request at most this share is sent the next time. */
const shrinkTo = 0.75;

/**
 * The budget to go on with after a server refused a request for its length; undefined if nothing could be left out. What
 * the server said is believed only where it asks for less.
 */
export async function shrink(
  { run, agent, transcript }: TurnStep,
  window: Window,
  { limitTokens = Number.POSITIVE_INFINITY }: ModelFailure,
): Promise<number | undefined> {
  const counter = await agent.tokens();
  const sent = window.messages.reduce((sum, message) => sum + counter.countMessage(message), 0);
  const settings = { ...settingsOf(run, agent), budgetTokens: Math.max(window.tokens, sent) };
  const whole = sent + fixedTokens(agent.definition, counter, settings) + countTools(run.tools, counter);
  // Each refusal leaves a smaller budget than the one before, so that they end.
  const most = Math.min(Math.floor(whole * shrinkTo), (run.windowBudget ?? Number.POSITIVE_INFINITY) - 1);
  // A number that leaves no window at all was no limit.
  for (const budgetTokens of [Math.min(limitTokens, most), most]) {
    const smaller = await chooseWindow({
      run: { ...run, windowBudget: budgetTokens },
      agent,
      messages: transcript.messages,
      nudge: undefined,
    });
    if (smaller.type !== "too_small") return budgetTokens;
  }
  return undefined;
}

/** A summary's own budget where the agent has none. */
const defaultSummaryBudget = 16_000;

/** A summary as it is kept: within its share of the window it will stand in. */
export async function fitSummary({ run, agent }: TurnStep, text: string): Promise<string> {
  const counter = await agent.tokens();
  const { budgetTokens = defaultSummaryBudget } = settingsOf(run, agent);
  const kept = counter.cut(text, longestSummary(budgetTokens));
  return kept.length < text.length ? `${kept}…` : text;
}

/** What the summariser is asked. */
export async function toSummaryRequest({
  run,
  agent,
  transcript,
}: TurnStep): Promise<{ instructions: string; messages: Message[] }> {
  const counter = await agent.tokens();
  const { budgetTokens = defaultSummaryBudget } = settingsOf(run, agent);
  return summaryRequest({
    messages: transcript.messages,
    upTo: run.model?.upTo ?? transcript.messages.length,
    previous: run.summary,
    instructions: agent.summariser.instructions,
    budgetTokens,
    count: counter.count,
    cutText: counter.cut,
  });
}
