import type { Message } from "../../core/message.ts";
import type { RunView } from "../../engine/run-view.ts";
import { formatCount, formatNumber } from "./format.ts";
import { type Html, html, path, query } from "./html.ts";
import { age, cost, runLink, statusBadge, tokens } from "./parts.ts";
import { contentBlock } from "./run-turns.ts";

/** - `first`: number of the first message shown, from 0; - `total`: of all in the transcript. */
export type SessionData = {
  id: string;
  runs: RunView[];
  cursor?: string | undefined;
  messages: Message[];
  first: number;
  total: number;
  pageSize: number;
  now: number;
};

/** A session: its runs, and the transcript that they share. */
export function renderSession(data: SessionData): Html {
  const { id, runs, messages, total, first, now, cursor } = data;
  const rows = runs.map(
    (run) =>
      html`<tr><td>${statusBadge(run.status)}</td><td>${runLink(run.runId)}</td><td>${run.agent}</td><td class="right num">${run.turns}</td><td class="right">${tokens(run.usage)}</td><td class="right">${cost(run.usage)}</td><td class="right num">${age(run.createdAt, now)}</td></tr>`,
  );
  return html`<div class="page-head"><p class="hint">Session</p><h1 class="mono">${id}</h1></div>
<div id="session" data-refresh="5000" class="stacked">
<section aria-labelledby="runs-name"><h2 id="runs-name">Runs</h2><div class="scroll" tabindex="0" role="region" aria-label="Runs of the session"><table class="plain"><thead><tr><th scope="col">Status</th><th scope="col">Run</th><th scope="col">Agent</th><th scope="col" class="right">Turns</th><th scope="col" class="right">Tokens</th><th scope="col" class="right">Cost</th><th scope="col" class="right">Age</th></tr></thead><tbody>${rows}</tbody></table></div>
${cursor === undefined ? "" : html`<p><a href="/${query({ session: id })}">All of its runs</a></p>`}</section>
<section aria-labelledby="transcript-name"><div class="section-head"><h2 id="transcript-name">Transcript</h2>${pages(data)}</div>
${total === 0 ? html`<p class="empty">Nothing has been said yet.</p>` : html`<p class="hint">${formatNumber(total, "message")}, shared by its runs.</p>`}
${messages.map((message, index) => said(message, path`/ui/sessions/${id}/text` + query({ message: first + index })))}</section>
</div>`;
}

function pages({ id, first, total, messages, pageSize }: SessionData): Html {
  if (messages.length >= total) return html``;
  const to = (from: number): string => path`/ui/sessions/${id}` + query({ from });
  return html`<nav class="pages" aria-label="Pages of messages"><span class="num">${first + 1} to ${first + messages.length} of ${formatCount(total)}</span>
${first > 0 ? html`<a href="${to(Math.max(0, first - pageSize))}">Earlier</a>` : ""}
${first + messages.length < total ? html`<a href="${to(first + messages.length)}">Later</a><a href="${path`/ui/sessions/${id}`}">Latest</a>` : ""}</nav>`;
}

function said(message: Message, href: string): Html {
  const { role } = message;
  const who =
    role === "tool"
      ? html`Result of <code>${message.name}</code>`
      : html`${role === "user" ? "Input" : role === "assistant" ? "Answer" : role}`;
  const calls = message.role === "assistant" ? (message.toolCalls ?? []) : [];
  return html`<div class="said said-${role === "tool" ? "tool" : role === "user" ? "user" : role === "assistant" ? "assistant" : "system"}"><p class="by">${who}</p>${contentBlock(message.content, href, role === "tool" ? "code" : "prose")}${calls.map(({ name, arguments: args }) => html`<p class="row-call"><code>${name}</code> <code class="hint">${args.slice(0, 500)}</code></p>`)}</div>`;
}
