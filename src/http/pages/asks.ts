import type { OpenCallView, RunView } from "../../engine/run-view.ts";
import type { Caller } from "../types.ts";
import { actId, form, may } from "./forms.ts";
import { type Html, html, path } from "./html.ts";
import { ago, due, longText, prettyJson, runLink, textPath } from "./parts.ts";

/** What a run waits for a person to say. */
export type Ask = { run: RunView; call: OpenCallView };

export function asksOf(run: RunView): Ask[] {
  return run.openCalls.filter(isForPerson).map((call) => ({ run, call }));
}

/** What the program that started the run is to bring is nothing for a person. */
function isForPerson({ state, from }: OpenCallView): boolean {
  return state === "approval" || state === "asking" || (state === "answer" && from === "person");
}

/** - `back`: the page that shows it; - `named`: whether it says which run it is of. */
export type AskPlace = { caller: Caller; back: string; now: number; named: boolean };

/** One thing to decide on, with what is needed to decide it and the forms to do so. */
export function renderAsk(ask: Ask, place: AskPlace): Html {
  const { run, call } = ask;
  const { callId, tool, effect, reason, askedAt, expiresAt, state } = call;
  const id = `ask-${run.runId}-${callId}`;
  const { now } = place;
  return html`<article class="ask" id="${id}" aria-labelledby="${id}-name">
<header><h3 id="${id}-name">${kindOf(call)} <code class="tool">${tool}</code></h3>${state === "answer" ? "" : html`<span class="tag tag-${effect}">${effect}</span>`}
<span class="ask-when">${askedAt === undefined ? "" : html`asked ${ago(askedAt, now)}`}${expiresAt === undefined ? "" : html`, expires ${due(expiresAt, now)}`}</span></header>
${place.named ? html`<p class="ask-run">${runLink(run.runId)} <span class="hint">${run.agent}, turn ${run.turns}</span></p>` : ""}
${whatOf(call)}
${argumentsOf(ask)}
${whyOf(call, reason)}
${may(place.caller, "decide") ? decideForms(ask, place) : html`<p class="hint">Your key may not decide.</p>`}
</article>`;
}

function kindOf({ state }: OpenCallView): string {
  if (state === "asking") return "Unknown outcome of";
  return state === "answer" ? "Question by" : "Approve";
}

/** A question, or what a call would do in its tool's words; a tool that has none repeats its arguments, which follow. */
function whatOf({ question, description, arguments: args }: OpenCallView): Html {
  const text = question ?? description;
  if (text === undefined || (args !== "" && text.endsWith(args))) return html``;
  return html`<p class="ask-what" dir="auto">${text.slice(0, 4_000)}</p>`;
}

function argumentsOf({ run, call }: Ask): Html {
  const { callId, question, arguments: args } = call;
  if (question !== undefined) return html``;
  const href = textPath(run.runId, run.turns, `arguments.${callId}`);
  return longText(prettyJson(args), { limit: 4_000, kind: "code", href, what: "all arguments" });
}

function whyOf({ state }: OpenCallView, reason: string | undefined): Html {
  if (state === "asking") {
    return html`<p class="why">It was started, and nobody knows whether it happened: its worker was lost, or it ended in an error after it began. Look in the system that it acts on before you decide.</p>`;
  }
  return reason === undefined ? html`` : html`<p class="why">Asks because ${reason.slice(0, 1_000)}.</p>`;
}

function decideForms({ run, call }: Ask, { caller, back }: AskPlace): Html {
  const { callId, argumentsHash, askedAt, tool, state } = call;
  const one = (what: "approve" | "deny" | "answer", body: Html, bound = {}): Html =>
    form({
      caller,
      back,
      action: path`/ui/runs/${run.runId}/calls/${callId}/${what}`,
      hidden: { decisionId: actId(caller, what, run.runId, callId, askedAt), ...bound },
      body,
    });
  const refuse =
    state === "asking"
      ? ["Do not run again", "What you found out"]
      : state === "answer"
        ? ["Decline", "Reason, told to the model"]
        : ["Deny", "Reason, told to the model"];
  const [word = "", hint = ""] = refuse;
  const reasonId = `reason-${run.runId}-${callId}`;
  const deny = html`<label for="${reasonId}" class="unseen">Reason (${tool})</label><input id="${reasonId}" name="reason" autocomplete="off" maxlength="2000" placeholder="${hint}"><button class="danger">${word}<span class="unseen"> ${tool}</span></button>`;
  const yes = html`<button class="${state === "asking" ? "danger" : "primary"}">${state === "asking" ? "Run it again" : "Approve"}<span class="unseen"> ${tool}</span></button>`;
  const first =
    state === "answer"
      ? one("answer", answerField(call, `answer-${run.runId}-${callId}`))
      : one("approve", yes, { argumentsHash });
  return html`<div class="decide">${first}${one("deny", deny)}</div>`;
}

/** A field that suits what the answer must be. */
function answerField({ answerSchema, tool }: OpenCallView, id: string): Html {
  const choices = choicesOf(answerSchema);
  const field = choices
    ? html`<select id="${id}" name="value" required>${choices.map((choice) => html`<option value="${choice}">${choice}</option>`)}</select>`
    : html`<textarea id="${id}" name="value" rows="2" required maxlength="100000" placeholder="${isText(answerSchema) ? "Your answer" : "Your answer, as JSON"}"></textarea>`;
  const schema =
    answerSchema === undefined || isText(answerSchema)
      ? ""
      : html`<details class="more"><summary>What it must be</summary><pre class="code">${JSON.stringify(answerSchema, null, 2).slice(0, 4_000)}</pre></details>`;
  return html`<label for="${id}" class="unseen">Answer to ${tool}</label>${field}<button class="primary">Answer<span class="unseen"> ${tool}</span></button>${schema}`;
}

type Schema = OpenCallView["answerSchema"];

function choicesOf(schema: Schema): string[] | undefined {
  if (schema?.type === "boolean") return ["true", "false"];
  const values: unknown = schema?.enum;
  return Array.isArray(values) && values.every((value) => typeof value === "string") ? values : undefined;
}

/** Whether an answer is taken as the text it is, not as JSON. */
export function isText(schema: Schema): boolean {
  return (
    schema === undefined || schema.type === "string" || (schema.type === undefined && choicesOf(schema) !== undefined)
  );
}
