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
    source?.close();
    live.clear();
    if (run.dataset.events) source = listen(run, live, { update, refused, opened });
  };
  // A browser connects again when a connection breaks, but not after an answer that is no stream, such as a proxy gives
  // while the server is away.
  let refusals = 0;
  const refused = () => {
    // Tells whether there is still something to watch.
    void update();
    setTimeout(
      () => {
        if (document.visibilityState === "visible" && source?.readyState === EventSource.CLOSED) open();
      },
      Math.min(1000 * 2 ** refusals, 30_000),
    );
    refusals += 1;
  };
  const opened = () => {
    refusals = 0;
    showOffline(false);
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
    showOffline(false);
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
      showOffline(true);
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
 * @param {{ update: () => Promise<void>, refused: () => void, opened: () => void }} on
 */
function listen(run, live, { update, refused, opened }) {
  const source = new EventSource(`${run.dataset.events}?after=${run.dataset.seq}`);
  source.addEventListener("text", (event) => live.add(JSON.parse(event.data)));
  source.addEventListener("text_superseded", (event) => live.strike(JSON.parse(event.data)));
  for (const kind of kinds) source.addEventListener(kind, () => void update());
  source.addEventListener("model_answered", () => {
    live.clear();
    void update();
  });
  source.addEventListener("open", opened);
  source.addEventListener("error", () => {
    // Closed for good: the run has ended, or the server refuses.
    if (source.readyState === EventSource.CLOSED) refused();
    else showOffline(true);
  });
  return source;
}

/** So much of a text that is arriving is shown: laying all of a long one out again at each piece would take all the time. */
const mostShown = 20_000;
/** Pieces are put in together, since a thousand of them may come in a second. */
const gatherMs = 60;

// As the server shows them: what could not be seen, or turns the direction of writing.
const hidden = /(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\u2028\u2029]/gu;
/** @param {string} char */
const nameOf = (char) => `⟨U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`;

/** @returns {{ box: HTMLElement, text: HTMLElement } | undefined} */
function findLive() {
  const box = document.getElementById("live");
  const text = box?.querySelector("[data-live-text]");
  return box && text instanceof HTMLElement ? { box, text } : undefined;
}

/** The text that is arriving. Text that came to nothing stays, struck out, until another takes its place. */
function createLive() {
  /** @type {string | undefined} */
  let execution;
  let shown = "";
  let gathered = "";
  let timer = 0;
  let isVoid = false;
  const show = () => {
    timer = 0;
    const found = findLive();
    if (!found) return;
    const { box, text } = found;
    const fresh = gathered.replaceAll("\r\n", "\n").replace(hidden, nameOf);
    gathered = "";
    box.hidden = execution === undefined;
    box.classList.toggle("is-void", isVoid);
    if (shown === "" || shown.length + fresh.length > 2 * mostShown) {
      shown = (shown + fresh).slice(-mostShown);
      text.textContent = shown;
    } else {
      shown += fresh;
      if (fresh !== "") text.append(fresh);
    }
  };
  const showSoon = () => {
    timer ||= setTimeout(show, gatherMs);
  };
  /** @param {string | undefined} next */
  const begin = (next) => {
    execution = next;
    shown = "";
    gathered = "";
    isVoid = false;
  };

  return {
    /** @param {{ execution: string, text: string }} event */
    add(event) {
      if (event.execution !== execution) begin(event.execution);
      gathered += event.text;
      showSoon();
    },
    /** @param {{ execution: string }} event */
    strike(event) {
      if (event.execution !== execution) return;
      isVoid = true;
      showSoon();
    },
    clear() {
      begin(undefined);
      clearTimeout(timer);
      show();
    },
  };
}
