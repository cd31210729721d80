import { type Message, textOf } from "../../core/message.ts";
import type { RequestView, TurnView } from "../../core/report.ts";
import { formatCount, formatNumber } from "./format.ts";
import { type Html, html, path, query } from "./html.ts";
import { facts, longText, textPath } from "./parts.ts";
import { contentBlock } from "./run-turns.ts";
import type { WindowRow } from "./window-diff.ts";

/** - `turns`: answers of the run by now; - `rows`: a page of them, `first` the number of its first of `total`. */
export type TurnData = {
  runId: string;
  view: TurnView;
  turns: number;
  request: RequestView;
  rows: WindowRow[];
  first: number;
  total: number;
  pageSize: number;
};

/** What the model saw at one turn, and how that differs from the transcript. */
export function renderWindow(data: TurnData): Html {
  const { request, runId, view, rows, first, total } = data;
  const shown = rows.map((row) => windowRow(row, (sent) => textPath(runId, view.turn, `message.${sent}`)));
  return html`<div class="window" data-window>
${overview(request)}
${request.instructions === undefined ? "" : html`<div class="said said-system"><p class="by">Instructions</p>${longText(request.instructions, { href: textPath(runId, view.turn, "instructions"), limit: 1_000 })}</div>`}
${rowPages(data)}
<ol class="window-rows" start="${first}">${shown}</ol>
${total === 0 ? html`<p class="empty">No messages.</p>` : ""}
${tools(request)}
</div>`;
}

function overview(request: RequestView): Html {
  const { agent, kept, leftOut, summarisedUpTo, messages, dropped, request: parameters, output } = request;
  const missing = leftOut.reduce((sum, [from, to]) => sum + to - from, 0);
  const sent = parameters === undefined ? "" : JSON.stringify(parameters);
  return facts([
    ["Model", html`<code>${agent.model}</code> <span class="hint">${agent.provider}</span>`],
    [
      "Agent",
      html`${agent.name}${agent.version === undefined ? "" : html` <span class="hint">version ${agent.version}</span>`}`,
    ],
    [
      "Messages",
      html`${formatNumber(messages?.length ?? 0, "message")} sent, ${formatCount(kept)} in the transcript then`,
    ],
    missing > 0 && [
      "Left out",
      html`${formatNumber(missing, "message")}${summarisedUpTo === undefined ? "" : `; a summary stood for those before #${summarisedUpTo}`}`,
    ],
    sent !== "" && sent !== "{}" && ["Parameters", html`<code>${sent.slice(0, 1_000)}</code>`],
    dropped.length > 0 && [
      "Not sent",
      html`<code>${dropped.join(", ")}</code> <span class="hint">the server does not take them</span>`,
    ],
    output !== undefined && ["Output", html`<code>${output.name}</code>`],
  ]);
}

function rowPages({ runId, view, first, total, rows, pageSize }: TurnData): Html {
  if (rows.length >= total) return html``;
  const here = path`/ui/runs/${runId}/turns/${view.turn}`;
  const last = first + rows.length - 1;
  return html`<nav class="pages" aria-label="Pages of messages"><span class="num">${first} to ${last} of ${formatCount(total)}</span>
${first > 1 ? html`<a href="${here + query({ from: Math.max(1, first - pageSize) })}">Earlier</a>` : ""}
${last < total ? html`<a href="${here + query({ from: last + 1 })}">Later</a>` : ""}</nav>`;
}

const marks = { same: "", changed: "changed", added: "added" } as const;

function windowRow(row: WindowRow, hrefOf: (sent: number) => string): Html {
  if (row.kind === "left_out") {
    const { from, to } = row;
    return html`<li class="row-gap">${formatNumber(to - from, "message")} left out <span class="hint">#${from} to #${to - 1}</span></li>`;
  }
  const { message, kind } = row;
  const place =
    kind === "added"
      ? html`<span class="hint">not in the transcript</span>`
      : html`<span class="hint">#${row.index}</span>`;
  return html`<li class="row row-${kind}"><p class="by">${roleOf(message)} ${place}${kind === "same" ? "" : html` <span class="tag tag-${kind}">${marks[kind]}</span>`}${kind === "changed" ? html` <span class="hint">${change(message, row.was)}</span>` : ""}</p>
${contentBlock(message.content, hrefOf(row.sent), message.role === "tool" ? "code" : "prose")}${callsOf(message)}</li>`;
}

function roleOf(message: Message): Html {
  if (message.role === "tool") return html`result of <code>${message.name}</code>`;
  return html`${message.role}`;
}

function callsOf(message: Message): Html {
  if (message.role !== "assistant" || !message.toolCalls) return html``;
  return html`${message.toolCalls.map(({ name, arguments: args }) => html`<p class="row-call"><code>${name}</code> <code class="hint">${args.slice(0, 500)}</code></p>`)}`;
}

function change(sent: Message, was: Message): string {
  const [now, before] = [textOf(sent.content).length, textOf(was.content).length];
  if (now === before) return "other words of the same length";
  return now < before
    ? `cut to ${formatCount(now)} of ${formatCount(before)} characters`
    : `${formatNumber(now - before, "character")} more than is kept`;
}

function tools({ offered, tools: specs = [] }: RequestView): Html {
  if (offered.length === 0) return html`<p class="hint">No tools were offered.</p>`;
  const byName = new Map(specs.map((spec) => [spec.name, spec]));
  return html`<details class="more"><summary>${formatNumber(offered.length, "tool")} offered</summary><dl class="tools">${offered.map(
    (name) => {
      const spec = byName.get(name);
      return html`<dt><code>${name}</code></dt><dd>${spec?.description.slice(0, 1_000)}${spec ? html`<pre class="code">${JSON.stringify(spec.parameters, null, 2).slice(0, 3_000)}</pre>` : ""}</dd>`;
    },
  )}</dl></details>`;
}
