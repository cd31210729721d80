import type { AuditEntry } from "../../core/audit.ts";
import { isEnded } from "../../core/run.ts";
import type { RunView } from "../../engine/run-view.ts";
import { asksOf, renderAsk } from "./asks.ts";
import { formatCount, formatNumber } from "./format.ts";
import { type Html, html, path, query } from "./html.ts";
import { adviceFor, age, statusBadge, waitText } from "./parts.ts";
import { renderActions } from "./run-actions.ts";
import type { RunData } from "./run-data.ts";
import { renderSummary } from "./run-summary.ts";
import { renderTimeline } from "./run-timeline.ts";
import { renderTurn } from "./run-turns.ts";

/** One run. */
export function renderRun(data: RunData): Html {
  const { run, turns, caller, now, seq } = data;
  const live = isEnded(run) ? "" : html`data-events="${path`/runs/${run.runId}/events`}" data-seq="${seq}"`;
  return html`<div id="notice">${data.notice ?? ""}</div>
<div id="run" ${live} data-status="${run.status}" data-title="${`${run.status}: ${run.runId}`}">
${head(data)}
<div class="split">
<div class="split-main">
${needs(data)}
<section aria-labelledby="turns-name" class="turns"><div class="section-head"><h2 id="turns-name">Turns</h2>${turnPages(data)}</div>
${turns.turns.length === 0 ? noTurns(data) : turns.turns.map((turn) => renderTurn(turn, { runId: run.runId, now }))}
${isEnded(run) ? "" : liveText()}</section>
</div>
<div class="split-side">
${renderSummary(data)}
${turns.turns.length === 0 ? "" : html`<section class="panel side-first" aria-labelledby="timeline-name"><h2 id="timeline-name">Timeline</h2>${renderTimeline(turns.turns, now, (turn) => `#turn-${turn}`)}</section>`}
${renderActions({ run, caller, seq })}
${renderAudit(data.audit, now)}
<p class="raw"><a href="${path`/runs/${run.runId}`}">JSON</a> <a href="${path`/runs/${run.runId}/transcript`}">Transcript as JSON</a></p>
</div>
</div>
</div>`;
}

function noTurns({ run, turns }: RunData): Html {
  if (turns.total > 0) {
    return html`<p class="empty">It has ${formatNumber(turns.total, "turn")}, none from here on. <a href="${path`/ui/runs/${run.runId}`}">The latest</a></p>`;
  }
  return html`<p class="empty">${run.status === "rejected" ? "It never began." : isEnded(run) ? "It ended before it began." : "It has not begun yet."}</p>`;
}

function head({ run, goal }: RunData): Html {
  return html`<div class="page-head run-head"><h1 class="mono">${run.runId}</h1>${statusBadge(run.status)}
${goal === undefined ? "" : html`<p class="goal" dir="auto">${goal}</p>`}</div>`;
}

/** What somebody has to see before all else: what it asks, why it waits, why it failed. */
function needs({ run, caller, now }: RunData): Html {
  const asks = asksOf(run);
  if (asks.length === 0) return trouble(run);
  const back = path`/ui/runs/${run.runId}`;
  return html`<section class="asks" aria-label="Waiting for you">${asks.map((ask) => renderAsk(ask, { caller, back, now, named: false }))}</section>`;
}

/** Filled by a script while the model answers; the server leaves it alone. */
function liveText(): Html {
  return html`<section class="live" id="live" data-keep aria-label="Text that is arriving" hidden><p class="by">Being written</p><div class="prose" data-live-text dir="auto"></div></section>`;
}

function trouble(run: RunView): Html {
  const { status, stopReason, error } = run;
  if (status === "waiting" || run.ahead !== undefined) return wait(run);
  if (status === "cancelled" && error)
    return html`<p class="notice tone-off">Cancelled: ${error.message.slice(0, 2_000)}</p>`;
  if (status !== "failed" && status !== "rejected") return html``;
  const advice = adviceFor(stopReason);
  return html`<div class="notice tone-bad"><p><strong>${stopReason ?? status}</strong>${error ? html` <span dir="auto">${error.message.slice(0, 2_000)}</span>` : ""}</p>${advice === undefined ? "" : html`<p>${advice}</p>`}</div>`;
}

function wait({ waitingFor = "its turn", ahead = 0 }: RunView): Html {
  const place = ahead < 2 ? "" : `; ${formatNumber(ahead, "run")} in all go first`;
  return html`<p class="notice tone-warn">${waitText(waitingFor)}${place}.</p>`;
}

function turnPages({ run, turns: { turns, total }, pageSize }: RunData): Html {
  const first = turns[0]?.turn;
  const last = turns.at(-1)?.turn;
  if (first === undefined || last === undefined || (first <= 1 && turns.length >= total)) return html``;
  const to = (from: number): string => path`/ui/runs/${run.runId}` + query({ from });
  return html`<nav class="pages" aria-label="Pages of turns"><span class="num">${first} to ${last} of ${formatCount(total)}</span>
${first > 1 ? html`<a href="${to(1)}">First</a><a href="${to(Math.max(1, first - pageSize))}" rel="prev">Earlier</a>` : ""}
${turns.length > 0 && total > first + turns.length - 1 ? html`<a href="${to(last + 1)}" rel="next">Later</a><a href="${path`/ui/runs/${run.runId}`}">Latest</a>` : ""}</nav>`;
}

function renderAudit(audit: readonly AuditEntry[], now: number): Html {
  if (audit.length === 0) return html``;
  const shown = audit.slice(-200);
  return html`<section class="panel" aria-labelledby="audit-name"><h2 id="audit-name">Who did what</h2><ol class="audit">${shown.map(
    ({ at, by, action, tool, reason }) =>
      html`<li><span class="audit-at">${age(at, now)}</span><span><strong>${by}</strong> ${action.replaceAll("_", " ")}${tool === undefined ? "" : html` <code>${tool}</code>`}${reason === undefined ? "" : html`<span class="hint clip" title="${reason.slice(0, 500)}">${reason.slice(0, 500)}</span>`}</span></li>`,
  )}</ol></section>`;
}
