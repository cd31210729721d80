import type { RunView } from "../../engine/run-view.ts";
import { formatCost, formatCount } from "./format.ts";
import { type Html, html, path, query } from "./html.ts";
import { ago, cost, due, facts, sessionLink, statusBadge, took } from "./parts.ts";
import type { RunData } from "./run-data.ts";

type Row = readonly [name: string, value: unknown] | false;

/** What is known of a run at a glance. */
export function renderSummary(data: Pick<RunData, "run" | "limits" | "deadlineAt" | "traceUrl" | "now">): Html {
  return html`<section class="panel side-first" aria-label="Summary">${facts([...who(data), ...times(data), ...amounts(data), ...references(data)])}</section>`;
}

function who({ run }: Pick<RunData, "run">): Row[] {
  const { status, stopReason, agent, session, tenant, dryRun, parent, paused } = run;
  const reason =
    stopReason === undefined || stopReason === status ? "" : html` <span class="hint">${stopReason}</span>`;
  return [
    ["Status", html`${statusBadge(status)}${reason}`],
    [
      "Agent",
      html`<a href="/${query({ agent })}">${agent}</a>${dryRun ? html` <span class="tag">dry run</span>` : ""}`,
    ],
    session !== undefined && ["Session", sessionLink(session)],
    tenant !== undefined && ["Tenant", tenant],
    parent !== undefined && ["Part of", html`<a href="${path`/ui/runs/${parent.runId}`}">${parent.runId}</a>`],
    paused !== undefined && [
      "Paused",
      html`by ${paused.by.slice(0, 100)} <span class="hint">${paused.reason.slice(0, 500)}</span>`,
    ],
  ];
}

function times({ run, deadlineAt, now }: Pick<RunData, "run" | "deadlineAt" | "now">): Row[] {
  const { createdAt, updatedAt, endedAt } = run;
  const open = endedAt === undefined;
  return [
    ["Started", ago(createdAt, now)],
    [open ? "So far" : "Took", took(createdAt, endedAt, now)],
    open && ["Last change", ago(updatedAt, now)],
    open && deadlineAt !== undefined && ["Deadline", due(deadlineAt, now)],
  ];
}

const ofLimit = (limit: number | undefined, format: (value: number) => string): string =>
  limit === undefined ? "" : ` of ${format(limit)}`;

function amounts({ run: { turns, usage }, limits }: Pick<RunData, "run" | "limits">): Row[] {
  const { inputTokens, outputTokens, cachedTokens, estimated } = usage;
  const spent = `${estimated ? "≈" : ""}${formatCount(inputTokens)} in, ${formatCount(outputTokens)} out${ofLimit(limits.maxTokens, formatCount)}`;
  const cached = cachedTokens > 0 ? html` <span class="hint num">${formatCount(cachedTokens)} cached</span>` : "";
  return [
    ["Turns", html`<span class="num">${turns}${ofLimit(limits.maxTurns, formatCount)}</span>`],
    ["Tokens", html`<span class="num">${spent}</span>${cached}`],
    ["Cost", html`${cost(usage)}${ofLimit(limits.maxCostUsd, formatCost)}`],
  ];
}

function references({ run: { traceId, metadata }, traceUrl }: Pick<RunData, "run" | "traceUrl">): Row[] {
  const short = `${traceId.slice(0, 16)}…`;
  const href = traceUrl?.replaceAll("{traceId}", encodeURIComponent(traceId));
  const trace =
    href !== undefined && /^https?:/.test(href)
      ? html`<a class="mono" href="${href}" rel="noreferrer">${short}</a>`
      : html`<code title="${traceId}">${short}</code>`;
  const pairs = Object.entries(metadata).map(([name, value]) => pair(name, value));
  return [["Trace", trace], pairs.length > 0 && ["Metadata", html`<span class="pairs">${pairs}</span>`]];
}

function pair(name: string, value: RunView["metadata"][string]): Html {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  return html`<span class="pair"><span>${name.slice(0, 100)}</span>=${text.slice(0, 200)}</span>`;
}
