import type { Caller } from "../types.ts";
import { type Ask, renderAsk } from "./asks.ts";
import { formatNumber } from "./format.ts";
import { type Html, html } from "./html.ts";

export type ApprovalsData = { asks: Ask[]; notice?: Html | undefined; caller: Caller; now: number; more: boolean };

/** Everything that waits for a person, the oldest first. */
export function renderApprovals({ asks, notice, caller, now, more }: ApprovalsData): Html {
  return html`<div class="page-head"><h1>Approvals</h1><p class="hint">What runs wait for a person to decide or to answer, oldest first.</p></div>
<div id="notice">${notice ?? ""}</div>
<section id="inbox" data-refresh="3000" data-waiting="${asks.length}" data-title="${approvalsTitle(asks.length)}" aria-label="Waiting for a decision">
${asks.length === 0 ? html`<p class="empty">Nothing waits for a person.</p>` : ""}
${asks.map((ask) => renderAsk(ask, { caller, back: "/ui/approvals", now, named: true }))}
${more ? html`<p class="hint">More runs wait than are looked at here: ${formatNumber(asks.length, "question")} shown. Decide on some and look again.</p>` : ""}
</section>`;
}

/** Tells in a tab's name how many there are. */
export function approvalsTitle(count: number): string {
  return count === 0 ? "Approvals" : `(${count}) Approvals`;
}
