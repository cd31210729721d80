import { isEnded } from "../../core/run.ts";
import type { RunView } from "../../engine/run-view.ts";
import type { Caller } from "../types.ts";
import { actId, form, may } from "./forms.ts";
import { type Html, html, path } from "./html.ts";

type Parts = { run: RunView; caller: Caller; seq: number };

/** What the caller may do with the run, as it is now. */
export function renderActions(parts: Parts): Html {
  const { run, caller } = parts;
  const forms = isEnded(run)
    ? [
        ...(may(caller, "decide") && run.status === "failed" ? [retryForm(parts)] : []),
        ...(may(caller, "admin") ? [deleteForm(parts)] : []),
      ]
    : [
        ...(may(caller, "start") ? [sendForm(parts)] : []),
        ...(may(caller, "decide") ? [run.paused ? resumeForm(parts) : pauseForm(parts), cancelForm(parts)] : []),
      ];
  if (forms.length === 0) return html``;
  return html`<section class="panel" aria-labelledby="actions-name"><h2 id="actions-name">Actions</h2><div class="actions">${forms}</div></section>`;
}

function action(what: string, label: string, { run, caller, seq }: Parts, body: Html): Html {
  const back = path`/ui/runs/${run.runId}`;
  const hidden = { decisionId: actId(caller, what, run.runId, seq) };
  const inside = form({ caller, back, action: `${back}/${what}`, hidden, body, class: "stack" });
  return html`<details class="act" id="act-${what}"><summary>${label}</summary>${inside}</details>`;
}

function sendForm(parts: Parts): Html {
  return action(
    "send",
    "Send input",
    parts,
    html`<label for="send-text">Message</label><textarea id="send-text" name="text" rows="3" required maxlength="100000"></textarea><p class="hint">It enters before the next model call.</p><button>Send</button>`,
  );
}

function pauseForm(parts: Parts): Html {
  return action(
    "pause",
    "Pause",
    parts,
    html`<label for="pause-reason">Reason</label><input id="pause-reason" name="reason" maxlength="2000" autocomplete="off"><p class="hint">What is under way may end; nothing else begins until it is resumed. Its deadline stays.</p><button>Pause the run</button>`,
  );
}

function resumeForm(parts: Parts): Html {
  return action(
    "resume",
    "Resume",
    parts,
    html`<p class="hint">Goes on where it was.</p><button class="primary">Resume</button>`,
  );
}

function cancelForm(parts: Parts): Html {
  return action(
    "cancel",
    "Cancel",
    parts,
    html`<label for="cancel-reason">Reason</label><input id="cancel-reason" name="reason" maxlength="2000" autocomplete="off"><p class="hint">Ends the run for good; what is under way is aborted.</p><button class="danger">Cancel the run</button>`,
  );
}

const limits = [
  ["maxTurns", "Turns", "such as 30"],
  ["maxTokens", "Tokens", "such as 500000"],
  ["maxCostUsd", "Cost in $", "such as 2.50"],
  ["deadlineMinutes", "Deadline in minutes", "from now"],
] as const;

function retryForm(parts: Parts): Html {
  const fields = limits.map(
    ([name, label, hint]) =>
      html`<div class="field"><label for="retry-${name}">${label}</label><input id="retry-${name}" name="${name}" inputmode="decimal" autocomplete="off" placeholder="${hint}"></div>`,
  );
  return action(
    "retry",
    "Retry",
    parts,
    html`<p class="hint">Goes on from where it failed. Fields left empty keep their limits.</p><div class="fields">${fields}</div><button class="primary">Retry</button>`,
  );
}

function deleteForm(parts: Parts): Html {
  return action(
    "delete",
    "Delete",
    parts,
    html`<p class="hint">Removes the run with all that is kept of it. This cannot be undone.</p><button class="danger">Delete the run</button>`,
  );
}
