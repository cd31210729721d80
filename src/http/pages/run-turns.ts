import { type Content, type Message, textOf } from "../../core/message.ts";
import type { CallView, MarkView, StepView, TurnView } from "../../core/report.ts";
import { formatCount, formatDuration, formatNumber, formatTime } from "./format.ts";
import { type Html, html, path } from "./html.ts";
import {
  cost,
  due,
  longText,
  outcomeBadge,
  prettyJson,
  runLink,
  statusBadge,
  textPath,
  tokens,
  took,
} from "./parts.ts";

type Where = { runId: string; now: number };

/** One turn: what came in, how its steps went, the answer, its calls. */
export function renderTurn(view: TurnView, where: Where): Html {
  const { turn, startedAt, endedAt, input, answer, calls, steps, marks, usage } = view;
  const { runId, now } = where;
  return html`<article class="turn" id="turn-${turn}" aria-labelledby="turn-${turn}-name">
<header class="turn-head"><h3 id="turn-${turn}-name"><a href="#turn-${turn}">Turn ${turn}</a></h3>
<span title="${formatTime(startedAt)}">${took(startedAt, endedAt, now)}</span>
${usage.inputTokens + usage.outputTokens === 0 ? "" : html`<span>${tokens(usage)} tokens</span>`}${usage.costUsd === undefined ? "" : cost(usage)}${windowNote(view)}</header>
${input.map((message, index) => inputBlock(message, { runId, turn, index }))}
${marks.filter(({ type }) => type !== "ended").map((mark) => markLine(mark))}
${incidents(steps, now)}
${answer ? said(view, runId) : ""}
${calls.length === 0 ? "" : html`<div class="calls">${calls.map((call) => renderCall(call, view, where))}</div>`}
${marks.filter(({ type }) => type === "ended").map((mark) => markLine(mark))}
<div class="turn-more">${view.request ? windowDetails(runId, turn) : answer ? lostWindow : ""}${stepsTable(steps, now)}</div>
</article>`;
}

function windowNote({ request, finishReason }: TurnView): Html {
  if (!request) return html``;
  const { leftOut, kept, summarisedUpTo } = request;
  const missing = leftOut.reduce((sum, [from, to]) => sum + to - from, 0);
  const odd =
    finishReason === undefined || finishReason === "stop" || finishReason === "tool_calls"
      ? ""
      : html`<span class="tag">${finishReason}</span>`;
  if (missing === 0) return html`${odd}`;
  const how = summarisedUpTo === undefined ? "left out" : "left out, with a summary";
  return html`<span class="hint">${formatCount(missing)} of ${formatCount(kept)} messages ${how}</span>${odd}`;
}

const lostWindow = html`<p class="hint">What was sent then cannot be told: Redis has lost the definition that its agent had then.</p>`;

function windowDetails(runId: string, turn: number): Html {
  const href = path`/ui/runs/${runId}/turns/${turn}`;
  return html`<details class="more" data-load="${href}" id="window-${turn}"><summary>What the model saw</summary><p class="load"><a href="${href}">Open it on a page of its own</a></p></details>`;
}

function inputBlock(message: Message, { runId, turn, index }: { runId: string; turn: number; index: number }): Html {
  const { role } = message;
  const who = role === "user" && message.origin === "run" ? "Drover to the model" : role === "user" ? "Input" : role;
  return html`<div class="said said-${role === "user" && message.origin !== "run" ? "user" : "system"}"><p class="by">${who}</p>${contentBlock(message.content, textPath(runId, turn, `input.${index}`))}</div>`;
}

function said({ answer, turn }: TurnView, runId: string): Html {
  if (!answer) return html``;
  const text = textOf(answer.content);
  const refusal =
    answer.refusal === undefined
      ? ""
      : html`<p class="by tone-warn">Refused</p><div class="prose" dir="auto">${answer.refusal.slice(0, 2_000)}</div>`;
  if (text === "" && otherParts(answer.content).length === 0) return html`${refusal}`;
  return html`<div class="said said-assistant"><p class="by">Answer</p>${contentBlock(answer.content, textPath(runId, turn, "answer"))}${refusal}</div>`;
}

/** Text as it is; images and files are named, never loaded. */
export function contentBlock(content: Content | null, href: string, kind: "code" | "prose" = "prose"): Html {
  const text = textOf(content);
  const others = otherParts(content);
  return html`${text === "" ? "" : longText(text, { href, kind })}${others.map((other) => html`<p class="part">${other}</p>`)}`;
}

function otherParts(content: Content | null): string[] {
  if (content === null || typeof content === "string") return [];
  return content
    .filter(({ type }) => type !== "text")
    .map((part) => {
      const size = JSON.stringify(part).length;
      return `[${part.type}, ${formatNumber(size, "character")}]`;
    });
}

function renderCall(call: CallView, { turn, steps }: TurnView, { runId, now }: Where): Html {
  const { callId, tool, outcome, described, policy, decision } = call;
  const last = steps.findLast((step) => step.callId === callId && step.kind === "tool");
  const time = last?.performMs === undefined ? "" : html`<span class="num">${formatDuration(last.performMs)}</span>`;
  const isShort = call.arguments.length <= shortArguments;
  return html`<section class="call" id="${callId}" aria-label="Call of ${tool}">
<header>${outcomeBadge(outcome ?? stateOf(steps, callId))}<code class="tool">${tool}</code>${isShort ? html`<code class="args" dir="auto">${spaced(call.arguments)}</code>` : ""}${time}${attemptsOf(steps, callId)}${childLink(last)}
${decision ? html`<span class="hint">${decision.type} by ${decision.by}</span>` : ""}</header>
${isShort ? "" : longText(prettyJson(call.arguments), { limit: shownChars, kind: "code", href: textPath(runId, turn, `arguments.${callId}`), what: "all arguments" })}
${described === undefined ? "" : html`<p class="hint">Dry run: ${described}</p>`}${policy === undefined ? "" : html`<p class="hint">Policy: ${policy}</p>`}
${outcome === undefined ? underWay(last, now) : resultBlock(call, textPath(runId, turn, `result.${callId}`), textPath(runId, turn, `whole.${callId}`))}
</section>`;
}

/** To the run that works on the call, if it is none of a worker's. */
function childLink(last: StepView | undefined): Html {
  if (last?.childId === undefined) return html``;
  return html`<a class="hint" href="${path`/ui/runs/${last.childId}`}">run ${last.childId}</a>`;
}

/** Where a call without a result is: the last that was begun about it is what it waits for. */
function stateOf(steps: readonly StepView[], callId: string): Parameters<typeof outcomeBadge>[0] {
  const last = steps.findLast((step) => step.callId === callId);
  return last ? outcomeOf(last) : "open";
}

/** An open question is not under way: somebody is waited for. */
function outcomeOf({ outcome, kind }: StepView): Parameters<typeof outcomeBadge>[0] {
  return outcome === "open" && (kind === "approval" || kind === "answer") ? "waiting" : outcome;
}

/** Arguments up to this length stand beside the tool's name. */
const shortArguments = 110;
const shownChars = 900;

function spaced(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 1).replaceAll(/\n\s*/g, " ");
  } catch {
    return json;
  }
}

function underWay(last: StepView | undefined, now: number): Html {
  const since =
    last?.endedAt === undefined && last?.startedAt !== undefined ? html`, ${took(last.startedAt, undefined, now)}` : "";
  return html`<p class="hint">No result yet${since}.</p>`;
}

function resultBlock({ result, cutFrom, outcome }: CallView, href: string, wholeHref: string): Html {
  if (result === undefined) return html``;
  const body =
    typeof result === "string"
      ? longText(prettyJson(result), { limit: shownChars, kind: "code", href, what: "all of it" })
      : contentBlock(result, href, "code");
  const cut =
    cutFrom === undefined
      ? ""
      : html`<p class="cut"><span>The model was given a cut form of ${formatCount(cutFrom)} characters.</span> <a href="${wholeHref}">Show the whole result</a></p>`;
  return html`<div class="result result-${outcome}"><span class="unseen">Result:</span>${body}${cut}</div>`;
}

function attemptsOf(steps: readonly StepView[], callId: string): Html {
  const attempts = Math.max(0, ...steps.filter((step) => step.callId === callId).map(({ attempt }) => attempt));
  return attempts > 1 ? html`<span class="hint">attempt ${attempts}</span>` : html``;
}

/** What did not simply go well: failures, lost workers, waits, decisions. */
function incidents(steps: readonly StepView[], now: number): Html {
  // How a call ended is told with the call.
  const isTold = ({ outcome, deliveries = 1, kind, error, reason, by }: StepView): boolean =>
    deliveries > 1 ||
    kind === "summary" ||
    by !== undefined ||
    (outcome !== "ok" && (kind === "model" || error !== undefined || reason !== undefined || outcome === "lost"));
  const told = steps.filter(isTold);
  if (told.length === 0) return html``;
  return html`<ul class="incidents">${alike(told).map(
    ({ step, times }) =>
      html`<li>${incident(step, now)}${times > 1 ? html`<span class="hint">; ${times} times</span>` : ""}</li>`,
  )}</ul>`;
}

/** What happened again just as before is told once: a step that is held is looked at every few seconds. */
function alike(steps: readonly StepView[]): { step: StepView; times: number }[] {
  const told: { step: StepView; times: number }[] = [];
  for (const step of steps) {
    const last = told.at(-1);
    if (last && step.outcome === "held" && whatOf(last.step) === whatOf(step)) last.times += 1;
    else told.push({ step, times: 1 });
  }
  return told;
}

const whatOf = ({ kind, callId, outcome, reason }: StepView): string => JSON.stringify([kind, callId, outcome, reason]);

const stepNames: Record<StepView["kind"], string> = {
  model: "model call",
  tool: "tool",
  summary: "summary",
  verify: "check of the answer",
  approval: "approval",
  answer: "question",
};

function stepName({ kind, tool }: StepView): Html {
  return tool === undefined
    ? html`${stepNames[kind]}`
    : html`${kind === "tool" ? "" : `${stepNames[kind]} of `}<code>${tool}</code>`;
}

function incident(step: StepView, now: number): Html {
  const { attempt, error, reason, deliveries = 1, by } = step;
  const lost =
    deliveries > 1
      ? `; delivered ${deliveries} times, ${formatNumber(deliveries - 1, "worker was", "workers were")} lost`
      : "";
  const failed = error
    ? html`: <span dir="auto">${error.message.slice(0, 500)}</span> <code class="hint">${error.code}</code>`
    : "";
  const told = reason === undefined ? "" : html`: <span dir="auto">${reason.slice(0, 500).replace(/\.$/, "")}</span>`;
  return html`${outcomeBadge(isPut(step, now) ? "waiting" : outcomeOf(step))} ${stepName(step)}${attempt > 1 ? `, attempt ${attempt}` : ""}${by === undefined ? "" : ` by ${by}`}${lost}${failed}${told}${nextAttempt(step, now)}`;
}

/** Nobody is at it: it was put off to a moment that has not come. */
const isPut = ({ outcome, nextAt }: StepView, now: number): boolean =>
  outcome === "open" && typeof nextAt === "number" && nextAt > now;

function nextAttempt({ nextAt, outcome, endedAt }: StepView, now: number): Html {
  const from = endedAt ?? now;
  if (typeof nextAt !== "number" || outcome === "held" || nextAt <= from) return html``;
  return html`; next attempt ${nextAt > now ? due(nextAt, now) : html`after ${formatDuration(nextAt - from)}`}`;
}

function markLine(mark: MarkView): Html {
  switch (mark.type) {
    case "rejected":
      return html`<p class="mark">${statusBadge("rejected")} ${mark.error.message.slice(0, 1_000)}</p>`;
    case "session_queued":
      return html`<p class="mark">Waited behind ${runLink(mark.behind)} in its session</p>`;
    case "session_entered":
      return html`<p class="mark">Its turn in its session came</p>`;
    case "retried":
      return html`<p class="mark">Retried by ${mark.by} <span class="hint">${formatTime(mark.at)}</span></p>`;
    case "ended":
      return html`<p class="mark mark-end">${statusBadge(mark.status)} <span class="hint">${mark.stopReason}${mark.by === undefined ? "" : ` by ${mark.by}`}, ${formatTime(mark.at)}</span></p>`;
  }
}

const dash = html`<span class="none">–</span>`;
const ms = (value: number | undefined): Html | string => (value === undefined ? dash : formatDuration(value));

function stepsTable(steps: readonly StepView[], now: number): Html {
  if (steps.length === 0) return html``;
  const rows = steps.map(
    (step) =>
      html`<tr><td>${stepName(step)}</td><td>${outcomeBadge(outcomeOf(step))}</td><td class="right num">${step.attempt}</td><td class="right num">${step.deliveries ?? 1}</td><td class="right num">${ms(step.queueWaitMs)}</td><td class="right num">${step.endedAt === undefined && step.startedAt !== undefined ? took(step.startedAt, undefined, now) : ms(step.performMs)}</td></tr>`,
  );
  return html`<details class="more"><summary>${formatNumber(steps.length, "step")}</summary><div class="scroll" tabindex="0" role="region" aria-label="Steps"><table class="steps"><thead><tr><th scope="col">Step</th><th scope="col">Outcome</th><th scope="col" class="right">Attempt</th><th scope="col" class="right">Delivered</th><th scope="col" class="right">In queue</th><th scope="col" class="right">Took</th></tr></thead><tbody>${rows}</tbody></table></div></details>`;
}
