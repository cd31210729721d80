import type { Limits } from "../../core/agent.ts";
import { DroverError } from "../../core/errors.ts";
import { effectiveLimits } from "../../core/limits.ts";
import type { Message } from "../../core/message.ts";
import type { RequestView } from "../../core/report.ts";
import type { Run } from "../../core/run.ts";
import { transcriptOf } from "../../core/session.ts";
import type { HttpContext, HttpDeps } from "../types.ts";
import type { Goals } from "./goals.ts";
import { type Html, html, path } from "./html.ts";
import { noticeOf, numberOf, type PageParts, respond } from "./respond.ts";
import { renderRun } from "./run-view.ts";
import { renderWindow, type TurnData } from "./turn-view.ts";
import { diffWindow } from "./window-diff.ts";

const turnsPerPage = 20;
const rowsPerPage = 60;

export async function runPage(parts: PageParts, goals: Goals, context: HttpContext): Promise<Response> {
  const { deps } = parts;
  const run = context.var.runs.get(param(context, "id"));
  // First: what is committed after this is told by the feed, from this event on.
  const head = await deps.store.load(run.id);
  const view = await run.status();
  // The turn that is under way has no answer yet and is one more.
  const latest = Math.max(1, view.turns + 2 - turnsPerPage);
  const from = numberOf(context, "from") || latest;
  const [turns, audit, goal] = await Promise.all([
    run.turns({ from, limit: turnsPerPage, requests: false }),
    run.audit(),
    goals(view),
  ]);
  const limits = head ? await limitsOf(deps, head) : {};
  const main = renderRun({
    run: view,
    goal,
    turns,
    pageSize: turnsPerPage,
    audit,
    seq: head?.eventSeq ?? 0,
    limits,
    deadlineAt: head?.deadlineAt,
    traceUrl: deps.settings.traceUrl,
    notice: noticeOf(context),
    caller: context.var.caller,
    now: deps.now(),
  });
  return respond(parts, context, { title: `${view.status}: ${run.id}`, nav: "runs", wide: true, main });
}

export function param(context: HttpContext, name: string): string {
  return context.req.param(name) ?? "";
}

/** As far as they are known before a worker has told of the agent. */
async function limitsOf({ store }: HttpDeps, head: Run): Promise<Limits> {
  const definition = head.agentHash === undefined ? null : await store.getDefinition(head.agentHash);
  return effectiveLimits(definition?.limits ?? {}, head);
}

/** What the model saw at one turn. */
export async function turnPage(parts: PageParts, context: HttpContext): Promise<Response> {
  const runId = param(context, "id");
  const data = await readWindow(parts.deps, context, runId);
  const { turn } = data.view;
  const link = (other: number): Html => html`<a href="${path`/ui/runs/${runId}/turns/${other}`}">Turn ${other}</a>`;
  const window = renderWindow(data);
  const main = html`<div class="page-head"><p class="hint"><a href="${path`/ui/runs/${runId}`}">${runId}</a></p><h1>What the model saw at turn ${turn}</h1>
<nav class="pages" aria-label="Turns">${turn > 1 ? link(turn - 1) : ""}${turn < data.turns ? link(turn + 1) : ""}</nav></div>${window}`;
  if (context.req.header("x-fragment") !== undefined) return context.html(window);
  return respond(parts, context, { title: `Turn ${turn}: ${runId}`, nav: "runs", main });
}

async function readWindow(deps: HttpDeps, context: HttpContext, runId: string): Promise<TurnData> {
  const turn = Number(param(context, "turn"));
  const { turns } = await context.var.runs.get(runId).turns({ from: turn, limit: 1 });
  const view = turns.find((one) => one.turn === turn);
  const head = await deps.store.load(runId);
  if (view?.answer && !view.request) {
    throw new DroverError(
      "not_found",
      `What the model saw at turn ${turn} of run "${runId}" cannot be told: Redis has lost the definition that its agent had then.`,
    );
  }
  if (!view?.request || !head) {
    throw new DroverError(
      "not_found",
      `Run "${runId}" has no answer of a turn ${turn}, so nothing was sent for it yet.`,
    );
  }
  const rows = diffWindow(view.request, await readSent(deps, head, view.request));
  const first = Math.max(1, numberOf(context, "from") ?? rows.length - rowsPerPage + 1);
  const shown = rows.slice(first - 1, first - 1 + rowsPerPage);
  return {
    runId,
    view,
    turns: head.turns,
    request: view.request,
    rows: shown,
    first,
    total: rows.length,
    pageSize: rowsPerPage,
  };
}

/** The transcript as far as it was sent, each message at its index. */
async function readSent({ store, redactor }: HttpDeps, head: Run, { kept, leftOut }: RequestView): Promise<Message[]> {
  const ends = [...leftOut, [kept, kept] as const];
  const ranges = ends.map(([to], place): [number, number] => [place === 0 ? 0 : (ends[place - 1]?.[1] ?? 0), to]);
  const transcript: Message[] = [];
  const read = ranges.map(async ([from, to]) => {
    if (from >= to) return;
    const messages = await store.readMessages(transcriptOf(head), from, to);
    for (const [place, message] of redactor.value(messages).entries()) transcript[from + place] = message;
  });
  await Promise.all(read);
  return transcript;
}
