// @ts-check
// A run that is watched as it happens.

import { announce, isBusy, refresh, showOffline } from "./page.js";

/** @param {HTMLElement} run */
export function watchRun(run) {
  const live = createLive();
  const update = createUpdate(run, () => source?.close());
  /** @type {EventSource | undefined} */
  let source;
  const open = () => {
    live.clear();
    if (run.dataset.events) source = listen(run, live, update);
  };
  open();
  // A browser has few connections to one server: tabs that nobody looks at give theirs back.
  let closing = 0;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(closing);
    if (document.visibilityState === "visible") {
      if (source?.readyState === EventSource.CLOSED) void update().then(open);
      return;
    }
    closing = setTimeout(() => source?.close(), 5000);
  });
}

/**
 * Brings the run up to date, at most three times a second however much happens.
 * @param {HTMLElement} run
 * @param {() => void} onEnd
 */
function createUpdate(run, onEnd) {
  let { status } = run.dataset;
  let asks = run.querySelectorAll(".ask").length;
  let pending = false;
  let asking = false;

  /** @returns {Promise<number>} ms until the next one */
  async function once() {
    // What is being typed comes first.
    if (isBusy(run)) return 1000;
    pending = false;
    await refresh(["run"]);
    document.title = `${run.dataset.title} · Drover`;
    const now = run.querySelectorAll(".ask").length;
    if (now > asks) announce("The run waits for a decision");
    else if (run.dataset.status !== status) announce(`The run is ${run.dataset.status}`);
    ({ status } = run.dataset);
    asks = now;
    if (!run.dataset.events) onEnd();
    return 350;
  }

  return async function update() {
    pending = true;
    if (asking) return;
    asking = true;
    const wait = await once().catch(() => {
      pending = true;
      return 3000;
    });
    setTimeout(() => {
      asking = false;
      if (pending) void update();
    }, wait);
  };
}

// Everything that is committed, but for text and the answer that it becomes.
const kinds = [
  ...["run_began", "model_failed", "summarised", "window_shrunk", "answer_verified", "answer_refused", "verify_failed"],
  ...["tool_started", "tool_finished", "tool_failed", "tool_lost", "policy_applied", "tool_described", "step_held"],
  ...["approval_asked", "approved", "denied", "approval_expired", "answer_asked", "answered", "answer_expired"],
  ...["step_crashed", "input_received", "messages_appended", "session_queued", "session_entered", "run_retried"],
  ...["usage_reported", "run_ended", "run_rejected"],
];

/**
 * @param {HTMLElement} run
 * @param {ReturnType<typeof createLive>} live
 * @param {() => Promise<void>} update
 */
function listen(run, live, update) {
  const source = new EventSource(`${run.dataset.events}?after=${run.dataset.seq}`);
  source.addEventListener("text", (event) => live.add(JSON.parse(event.data)));
  source.addEventListener("text_superseded", (event) => live.strike(JSON.parse(event.data)));
  for (const kind of kinds) source.addEventListener(kind, () => void update());
  source.addEventListener("model_answered", () => {
    live.clear();
    void update();
  });
  source.addEventListener("open", () => showOffline(false));
  source.addEventListener("error", () => {
    // Closed for good: the run has ended, or the server refuses. A look at the page tells which.
    if (source.readyState === EventSource.CLOSED) void update();
    else showOffline(true);
  });
  return source;
}

/** The text that is arriving. Text that came to nothing stays, struck out, until another takes its place. */
function createLive() {
  /** @type {string | undefined} */
  let execution;
  /** @returns {{ box: HTMLElement, text: HTMLElement } | undefined} */
  const find = () => {
    const box = document.getElementById("live");
    const text = box?.querySelector("[data-live-text]");
    return box && text instanceof HTMLElement ? { box, text } : undefined;
  };
  return {
    /** @param {{ execution: string, text: string }} event */
    add(event) {
      const found = find();
      if (!found) return;
      const { box, text } = found;
      if (event.execution !== execution) {
        text.textContent = "";
        box.classList.remove("is-void");
      }
      execution = event.execution;
      box.hidden = false;
      text.append(event.text);
    },
    /** @param {{ execution: string }} event */
    strike(event) {
      if (event.execution === execution) find()?.box.classList.add("is-void");
    },
    clear() {
      execution = undefined;
      const found = find();
      if (!found) return;
      found.box.hidden = true;
      found.box.classList.remove("is-void");
      found.text.textContent = "";
    },
  };
}
