import type { OpenCallView, RunView } from "../../engine/run-view.ts";
import type { Caller } from "../types.ts";
import { actId, form, may } from "./forms.ts";
import { type Html, html, path } from "./html.ts";
import { ago, due, longText, prettyJson, runLink } from "./parts.ts";

/** What a run waits for a person to say. `answer`: a question that wants words, not a decision. */
export type Ask = { run: RunView; call: OpenCallView };

/** States in which a call waits for a person. */
const asking: ReadonlySet<string> = new Set(["approval", "asking", "answer"]);

export function asksOf(run: RunView): Ask[] {
  return run.openCalls.filter(({ state }) => asking.has(state)).map((call) => ({ run, call }));
}

/** - `back`: the page that shows it; - `named`: whether it says which run it is of. */
export type AskPlace = { caller: Caller; back: string; now: number; named: boolean };

/** One thing to decide on, with what is needed to decide it and the forms to do so. */
export function renderAsk(ask: Ask, place: AskPlace): Html {
  const { run, call } = ask;
  const { callId, tool, effect, description, reason, askedAt, expiresAt } = call;
  const id = `ask-${run.runId}-${callId}`;
  const { now } = place;
  return html`<article class="ask" id="${id}" aria-labelledby="${id}-name">
<header><h3 id="${id}-name">${kindOf(call)} <code class="tool">${tool}</code></h3><span class="tag tag-${effect}">${effect}</span>
<span class="ask-when">${askedAt === undefined ? "" : html`asked ${ago(askedAt, now)}`}${expiresAt === undefined ? "" : html`, expires ${due(expiresAt, now)}`}</span></header>
${place.named ? html`<p class="ask-run">${runLink(run.runId)} <span class="hint">${run.agent}, turn ${run.turns}</span></p>` : ""}
${description === undefined ? "" : html`<p class="ask-what" dir="auto">${description.slice(0, 2_000)}</p>`}
${longText(prettyJson(call.arguments), { limit: 4_000, kind: "code", href: path`/ui/runs/${run.runId}/turns/${run.turns}/text` + `?what=arguments.${encodeURIComponent(callId)}`, what: "all arguments" })}
${whyOf(call, reason)}
${may(place.caller, "decide") ? decideForms(ask, place) : html`<p class="hint">Your key may not decide.</p>`}
</article>`;
}

function kindOf({ state }: OpenCallView): string {
  if (state === "asking") return "Unknown outcome of";
  return (state as string) === "answer" ? "Question by" : "Approve";
}

function whyOf({ state }: OpenCallView, reason: string | undefined): Html {
  if (state === "asking") {
    return html`<p class="why">It was started, and nobody knows whether it happened: its worker was lost, or it ended in an error after it began. Look in the system that it acts on before you decide.</p>`;
  }
  return reason === undefined ? html`` : html`<p class="why">Asks because ${reason.slice(0, 1_000)}.</p>`;
}

function decideForms({ run, call }: Ask, { caller, back }: AskPlace): Html {
  const { callId, argumentsHash, askedAt, tool, state } = call;
  const at = (what: string): string => path`/ui/runs/${run.runId}/calls/${callId}/` + what;
  const fields = (what: string): Record<string, string | undefined> => ({
    decisionId: actId(caller, what, run.runId, callId, askedAt),
    tool,
  });
  const input = (name: string, label: string, more: Html): Html => {
    const id = `${name}-${run.runId}-${callId}`;
    return html`<label for="${id}" class="unseen">${label}</label><input id="${id}" name="${name}" autocomplete="off" maxlength="2000" ${more}>`;
  };
  if ((state as string) === "answer") {
    const body = html`${input("value", `Answer to ${tool}`, html`required placeholder="Your answer"`)}<button class="primary">Answer</button>`;
    return html`<div class="decide">${form({ caller, back, action: at("answer"), hidden: fields("answer"), body })}</div>`;
  }
  const unknown = state === "asking";
  const approve = html`<button class="primary">${unknown ? "Run it again" : "Approve"}<span class="unseen"> ${tool}</span></button>`;
  const deny = html`${input("reason", `Reason to deny ${tool}`, html`placeholder="${unknown ? "What you found out" : "Reason, told to the model"}"`)}<button class="danger">${unknown ? "Do not run again" : "Deny"}<span class="unseen"> ${tool}</span></button>`;
  return html`<div class="decide">
${form({ caller, back, action: at("approve"), hidden: { ...fields("approve"), argumentsHash }, body: approve })}
${form({ caller, back, action: at("deny"), hidden: fields("deny"), body: deny })}
</div>`;
}
