import type { StepView } from "../../core/report.ts";
import type { RunStatus, StopReason, Usage } from "../../core/run.ts";
import { formatAge, formatCost, formatCount, formatDuration, formatShort, formatTime, toIso } from "./format.ts";
import { type Html, html, path, query } from "./html.ts";

// Small pieces that several pages are made of.

type Shape = { tone: string; icon: Html };

const icon = (inside: Html): Html =>
  html`<svg class="icon" viewBox="0 0 16 16" width="14" height="14" aria-hidden="true" focusable="false">${inside}</svg>`;
const ring = html`<circle cx="8" cy="8" r="5.5" fill="none" stroke="currentColor" stroke-width="1.8"/>`;
const stroke = (d: string): Html =>
  html`<path d="${d}" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round"/>`;

/** Each status has a shape of its own, so that nobody needs the colour. */
const statuses: Record<RunStatus, Shape> = {
  queued: { tone: "off", icon: icon(ring) },
  running: { tone: "busy", icon: icon(html`${ring}<path d="M8 2.5a5.5 5.5 0 0 1 0 11z" fill="currentColor"/>`) },
  waiting: { tone: "warn", icon: icon(html`${ring}${stroke("M8 5v3.2l2 1.4")}`) },
  paused: { tone: "off", icon: icon(stroke("M5.5 3.5v9M10.5 3.5v9")) },
  completed: { tone: "good", icon: icon(stroke("M3 8.5 6.5 12 13 4.5")) },
  failed: { tone: "bad", icon: icon(stroke("M4 4l8 8M12 4l-8 8")) },
  cancelled: { tone: "off", icon: icon(html`${ring}${stroke("M4.5 11.5l7-7")}`) },
  rejected: { tone: "bad", icon: icon(stroke("M8 2.5 14 13.5H2zM8 7v2.5")) },
};

/** A status as shape, colour and word. */
export function statusBadge(status: RunStatus): Html {
  const { tone, icon: shape } = statuses[status];
  return html`<span class="badge tone-${tone}">${shape}${status}</span>`;
}

/** `waiting`: for a person. */
type Outcome = StepView["outcome"] | "waiting";

const outcomes: Record<Outcome, { tone: string; as: RunStatus; word: string }> = {
  ok: { tone: "good", as: "completed", word: "ok" },
  failed: { tone: "bad", as: "failed", word: "failed" },
  denied: { tone: "bad", as: "cancelled", word: "denied" },
  unknown: { tone: "warn", as: "rejected", word: "outcome unknown" },
  cancelled: { tone: "off", as: "cancelled", word: "cancelled" },
  lost: { tone: "warn", as: "rejected", word: "worker lost" },
  crashed: { tone: "bad", as: "failed", word: "crashed" },
  held: { tone: "warn", as: "waiting", word: "held" },
  expired: { tone: "warn", as: "waiting", word: "expired" },
  open: { tone: "busy", as: "running", word: "under way" },
  waiting: { tone: "warn", as: "waiting", word: "waits" },
};

/** How a step or a call ended. */
export function outcomeBadge(outcome: Outcome): Html {
  const { tone, as, word } = outcomes[outcome];
  return html`<span class="outcome tone-${tone}">${statuses[as].icon}${word}</span>`;
}

/** `3 min`, with the moment itself in the title; a script keeps it true. */
export function age(at: number, now: number): Html {
  return html`<time datetime="${toIso(at)}" title="${formatTime(at)}" data-age>${formatAge(now - at)}</time>`;
}

export function ago(at: number, now: number): Html {
  const text = formatAge(now - at);
  return html`<time datetime="${toIso(at)}" title="${formatTime(at)}" data-age="ago">${text === "now" ? "just now" : `${text} ago`}</time>`;
}

/** A moment that may lie ahead: `in 4 min`, or `due`. */
export function due(at: number, now: number): Html {
  const text = at > now ? `in ${formatAge(at - now)}` : "due";
  return html`<time datetime="${toIso(at)}" title="${formatTime(at)}" data-age="due">${text}</time>`;
}

/** How long it took, or has taken up to now: then it goes on counting. */
export function took(from: number, to: number | undefined, now: number): Html {
  if (to !== undefined) return html`<span class="num">${formatDuration(to - from)}</span>`;
  return html`<time class="num" datetime="${toIso(from)}" title="since ${formatTime(from)}" data-age="took">${formatDuration(now - from)}</time>`;
}

export function tokens({ inputTokens, outputTokens, cachedTokens, estimated }: Usage): Html {
  if (inputTokens + outputTokens === 0) return html`<span class="none">–</span>`;
  const exact = `${formatCount(inputTokens)} in${cachedTokens > 0 ? `, ${formatCount(cachedTokens)} of them cached` : ""}, ${formatCount(outputTokens)} out${estimated ? ", partly estimated" : ""}`;
  return html`<span class="num" title="${exact}">${estimated ? "≈" : ""}${formatShort(inputTokens)}<span class="arrow" aria-hidden="true"> → </span><span class="unseen"> in, </span>${formatShort(outputTokens)}<span class="unseen"> out</span></span>`;
}

export function cost({ costUsd }: Usage): Html {
  if (costUsd === undefined) return html`<span class="none" title="no price is known">–</span>`;
  return html`<span class="num">${formatCost(costUsd)}</span>`;
}

export function runLink(runId: string): Html {
  return html`<a class="mono run-id" href="${path`/ui/runs/${runId}`}">${runId}</a>`;
}

export function sessionLink(session: string): Html {
  return html`<a class="mono" href="${path`/ui/sessions/${session}`}">${session}</a>`;
}

export type CutOptions = { limit?: number; href: string; kind?: "code" | "prose"; what?: string };

/** A text, cut if it is long, with a link to the whole of it. */
export function longText(text: string, { limit = 2_000, href, kind = "prose", what = "the whole" }: CutOptions): Html {
  const shown = text.length > limit ? text.slice(0, limit).toWellFormed() : text;
  const rest =
    shown.length < text.length
      ? html`<p class="cut"><span>Cut after ${formatCount(limit)} of ${formatCount(text.length)} characters.</span> <a href="${href}">Show ${what}</a></p>`
      : "";
  const body =
    kind === "code"
      ? html`<pre class="code" dir="auto">${shown}</pre>`
      : html`<div class="prose" dir="auto">${shown}</div>`;
  return html`${body}${rest}`;
}

/** JSON text with its fields on lines of their own; other text as it is. */
export function prettyJson(text: string): string {
  if (text.length > 100_000) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** What a run waits for, as a sentence without its full stop. Some reasons are sentences of their own. */
export function waitText(waitingFor: string): string {
  const text = waitingFor.replace(/\.$/, "");
  return /^[A-Z]/.test(text) ? text : `Waits for ${text}`;
}

const advice: Partial<Record<StopReason, string>> = {
  max_turns:
    "Look at the last turns: if it was getting somewhere, retry it with more turns; if it went in circles, change its instructions or tools first.",
  repeated_calls:
    "It made the same calls with the same results again and again. See what the tool told it; then retry, or send it a hint with the retry.",
  token_budget: "Retry it with a higher token limit, or give its agent a window so that it sends less.",
  cost_budget: "Retry it with a higher cost limit.",
  byte_budget:
    "It holds as much as it may. If it is worth more, retry it with a higher maxBytes; else have its tools return less.",
  deadline: "Retry it with a longer deadline. A long queue wait in the timeline means that workers are missing.",
  verify_failed:
    "Its answers did not pass the agent's own check. The last check's words are in the transcript; retry it once that is mended.",
  bad_output:
    "Its answers did not fit the agent's output schema. See the last answers; a larger model or a simpler schema helps.",
  model_error:
    "The model's server refused or failed. Mend what the message names (key, model name, quota), then retry: it goes on from here.",
  poison:
    "A step of this run took several workers down with it. Find out why (memory? native code?) before you retry it.",
};

/** What a person can do about a run that stopped for this reason. */
export function adviceFor(reason: StopReason | undefined): string | undefined {
  return reason === undefined ? undefined : advice[reason];
}

/** Names and values, side by side. */
export function facts(rows: (readonly [name: string, value: unknown] | false | undefined)[]): Html {
  const shown = rows.filter((row) => row !== false && row !== undefined);
  return html`<dl class="facts">${shown.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** A message of one line over the page, such as the result of an action. */
export function notice(tone: "good" | "bad" | "warn", text: unknown): Html {
  return html`<p class="notice tone-${tone}" role="${tone === "bad" ? "alert" : "status"}" tabindex="-1" autofocus>${text}</p>`;
}

/** Where the whole of one text of a turn is. */
export function textPath(runId: string, turn: number, what: string): string {
  return path`/ui/runs/${runId}/turns/${turn}/text` + query({ what });
}
