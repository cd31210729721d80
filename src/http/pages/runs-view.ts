import { type RunStatus, runStatuses } from "../../core/run.ts";
import type { RunView } from "../../engine/run-view.ts";
import { formatCount } from "./format.ts";
import { type Html, html, query } from "./html.ts";
import { age, cost, notice, runLink, sessionLink, statusBadge, tokens, took, waitText } from "./parts.ts";
import type { RunsFields } from "./runs-query.ts";

/** `goal`: the first words of what it was asked. */
export type RunRow = { run: RunView; goal?: string | undefined };

export type RunsData = {
  fields: RunsFields;
  problems: string[];
  rows: RunRow[];
  /** Of all runs that the caller may see, of the agent filtered by. */
  counts: Record<RunStatus, number>;
  next?: string | undefined;
  agents: string[];
  /** The result of an action that led here. */
  notice?: Html | undefined;
  now: number;
};

/** The list of runs. */
export function renderRuns(data: RunsData): Html {
  const { fields, problems, rows } = data;
  return html`<div class="page-head"><h1>Runs</h1><div id="notice">${data.notice ?? ""}</div>${problems.map((problem) => notice("bad", problem))}</div>
${tabs(data)}
${filters(data)}
<section id="runs" data-refresh="3000" aria-label="Runs that fit">
${rows.length === 0 ? nothing(data) : table(data)}
${pages(fields, data.next)}
</section>`;
}

function link(fields: RunsFields, change: Partial<RunsFields>): string {
  return `/${query({ ...fields, cursor: "", ...change })}`;
}

function tabs({ fields, counts }: RunsData): Html {
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const tab = (status: RunStatus | "", label: unknown, count: number): Html =>
    html`<li><a href="${link(fields, { status })}" ${fields.status === status ? html`aria-current="true"` : ""}>${label} <span class="tab-count">${formatCount(count)}</span></a></li>`;
  return html`<nav class="tabs" id="tabs" aria-label="Runs by status"><ul>
${tab("", "All", total)}
${runStatuses.filter((status) => status !== "paused" || counts.paused > 0).map((status) => tab(status, statusBadge(status), counts[status]))}
</ul></nav>`;
}

function filters({ fields, agents }: RunsData): Html {
  const field = (name: keyof RunsFields, label: string, more: Html): Html =>
    html`<div class="field"><label for="f-${name}">${label}</label><input id="f-${name}" name="${name}" value="${fields[name]}" autocomplete="off" spellcheck="false" ${more}></div>`;
  const isFiltered = fields.agent + fields.session + fields.metadata + fields.since + fields.until + fields.id !== "";
  return html`<form class="filters" method="get" action="/" role="search" aria-label="Filter runs">
<input type="hidden" name="status" value="${fields.status}">
${field("id", "Run id", html`type="search" placeholder="part of an id"`)}
${field("agent", "Agent", html`list="agents"`)}
${field("session", "Session", html``)}
${field("metadata", "Metadata", html`placeholder="key=value"`)}
${field("since", "Since", html`placeholder="2h, 3d, 2026-11-30"`)}
${field("until", "Until", html`placeholder="1h, 2026-11-30T08:00Z"`)}
<datalist id="agents">${agents.map((agent) => html`<option value="${agent}"></option>`)}</datalist>
<div class="filter-actions"><button>Filter</button>${isFiltered ? html`<a href="/${query({ status: fields.status })}">Clear</a>` : ""}</div>
</form>`;
}

function table({ rows, now }: RunsData): Html {
  return html`<table class="runs" role="table" aria-label="Runs, newest first">
<thead role="rowgroup"><tr role="row">
<th role="columnheader" scope="col">Status</th><th role="columnheader" scope="col">Run</th><th role="columnheader" scope="col">Agent</th><th role="columnheader" scope="col" class="grow">Asked to</th>
<th role="columnheader" scope="col" class="right">Turns</th><th role="columnheader" scope="col" class="right">Tokens</th><th role="columnheader" scope="col" class="right">Cost</th>
<th role="columnheader" scope="col" class="right">Took</th><th role="columnheader" scope="col" class="right">Age</th>
</tr></thead>
<tbody role="rowgroup">${rows.map((row) => tableRow(row, now))}</tbody></table>`;
}

function tableRow({ run, goal }: RunRow, now: number): Html {
  const { runId, agent, status, turns, usage, createdAt, endedAt, session, dryRun } = run;
  return html`<tr role="row" id="row-${runId}">
<td role="cell" class="c-status">${statusBadge(status)}</td>
<td role="cell" class="c-run">${runLink(runId)}</td>
<td role="cell" class="c-agent">${agent}${dryRun ? html` <span class="tag">dry run</span>` : ""}</td>
<td role="cell" class="c-goal">${goal === undefined ? "" : html`<span class="clip" dir="auto">${goal}</span>`}${aside(run)}${session === undefined ? "" : html`<span class="sub">in ${sessionLink(session)}</span>`}</td>
<td role="cell" class="c-turns right num" data-label="${turns === 1 ? "turn" : "turns"}">${turns}</td>
<td role="cell" class="c-tokens right" data-label="tokens">${tokens(usage)}</td>
<td role="cell" class="c-cost right">${cost(usage)}</td>
<td role="cell" class="c-took right" data-label="took">${status === "rejected" ? html`<span class="none">–</span>` : took(createdAt, endedAt, now)}</td>
<td role="cell" class="c-age right num" data-label="ago">${age(createdAt, now)}</td>
</tr>`;
}

/** Why it is where it is: what it waits for, or why it failed. */
function aside({ waitingFor, error, status, stopReason, ahead }: RunView): Html | "" {
  if (waitingFor !== undefined) {
    const place = ahead === undefined || ahead < 2 ? "" : `, ${ahead} ahead`;
    return html`<span class="sub tone-warn">${waitText(waitingFor)}${place}</span>`;
  }
  if (status !== "failed" && status !== "rejected" && status !== "cancelled") return "";
  const why = error?.message ?? stopReason;
  return why === undefined
    ? ""
    : html`<span class="sub clip tone-${status === "cancelled" ? "off" : "bad"}">${why.slice(0, 300)}</span>`;
}

function nothing({ fields, next }: RunsData): Html {
  if (next !== undefined) return html`<p class="empty">Nothing among the runs looked at so far. Look further back.</p>`;
  if (Object.values(fields).some((value) => value !== "")) {
    return html`<p class="empty">No run fits. <a href="/">Show all runs</a></p>`;
  }
  return html`<div class="empty"><p>No runs yet. Start one:</p><pre class="code">drover start assistant "What is 17 * 23?"</pre></div>`;
}

function pages(fields: RunsFields, next: string | undefined): Html {
  if (next === undefined && fields.cursor === "") return html``;
  return html`<nav class="pages" aria-label="Pages">
${fields.cursor === "" ? "" : html`<a href="${link(fields, {})}" rel="first">Newest</a>`}
${next === undefined ? html`<span class="none">No older runs</span>` : html`<a href="${link(fields, { cursor: next })}" rel="next">Older</a>`}
</nav>`;
}
