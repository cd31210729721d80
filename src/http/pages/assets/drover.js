// @ts-check
// What the pages do beyond being read: ages that go on, lists that stay current, a run that is watched as it happens.
// Without it everything is still there; one has to load the page again.

import { morph } from "./morph.js";

const skew = Date.now() - Number(document.body.dataset.now || Date.now());
const announcer = document.getElementById("announcer");
const offline = document.getElementById("offline");

/** @param {string} text what a screen reader is to say, once */
function announce(text) {
  if (announcer && announcer.textContent !== text) announcer.textContent = text;
}

/** @param {boolean} isOff */
function showOffline(isOff) {
  if (offline) offline.hidden = !isOff;
}

// ---- ages ----

/** @param {number} ms */
function toAge(ms) {
  if (ms < 1000) return "now";
  if (ms < 60_000) return `${Math.floor(ms / 1000)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${Math.floor(ms / 3_600_000)} h`;
  return `${Math.floor(ms / 86_400_000)} d`;
}

/** @param {number} n */
const two = (n) => String(Math.floor(n)).padStart(2, "0");

/** @param {number} ms */
function toDuration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  if (ms < 60_000) return `${Math.floor(ms / 1000)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${two((ms % 60_000) / 1000)} s`;
  if (ms < 86_400_000) return `${Math.floor(ms / 3_600_000)} h ${two((ms % 3_600_000) / 60_000)} min`;
  return `${Math.floor(ms / 86_400_000)} d ${two((ms % 86_400_000) / 3_600_000)} h`;
}

/** @type {Record<string, (at: number, now: number) => string>} */
const forms = {
  "": (at, now) => toAge(now - at),
  ago: (at, now) => (now - at < 1000 ? "just now" : `${toAge(now - at)} ago`),
  due: (at, now) => (at > now ? `in ${toAge(at - now)}` : "due"),
  took: (at, now) => toDuration(now - at),
};

function tick() {
  const now = Date.now() - skew;
  for (const time of document.querySelectorAll("time[data-age]")) {
    const form = forms[time.getAttribute("data-age") ?? ""];
    const text = form?.(Date.parse(time.getAttribute("datetime") ?? ""), now);
    if (text !== undefined && text !== time.textContent) time.textContent = text;
  }
}

// ---- asking for what has changed ----

/**
 * @param {string} url
 * @returns {Promise<HTMLElement | undefined>} the main part of the page as it is now
 */
async function fetchMain(url) {
  const response = await fetch(url, { headers: { "x-fragment": "1", accept: "text/html" }, cache: "no-store" });
  if (response.redirected && new URL(response.url).pathname === "/login") location.reload();
  if (!response.ok) throw new Error(`answered ${response.status}`);
  showWaiting(Number(response.headers.get("x-waiting") ?? 0));
  const template = document.createElement("template");
  template.innerHTML = await response.text();
  const main = document.createElement("main");
  main.append(template.content);
  return main;
}

/** @param {number} count decisions that wait, in the navigation */
function showWaiting(count) {
  const link = document.querySelector('.bar nav a[href="/ui/approvals"]');
  const badge = link?.querySelector(".count-badge");
  if (!link || (count === 0 && !badge)) return;
  if (count === 0) badge?.remove();
  else if (badge?.firstChild) badge.firstChild.nodeValue = String(count);
  else {
    const made = document.createElement("span");
    made.className = "count-badge";
    made.innerHTML = '<span class="unseen"> waiting</span>';
    made.prepend(String(count));
    link.append(" ", made);
  }
}

/** Somebody is filling in a field there: what is being typed is not touched, nor is anything moved from under it. */
/** @param {Element} part */
function isBusy(part) {
  const active = document.activeElement;
  if (active instanceof HTMLInputElement || active instanceof HTMLTextAreaElement) {
    return part.contains(active) && active.value !== active.defaultValue;
  }
  return false;
}

/**
 * Brings parts of the page up to date.
 * @param {string[]} ids of the elements
 */
async function refresh(ids) {
  const main = await fetchMain(location.href);
  for (const id of ids) {
    const old = document.getElementById(id);
    const fresh = main?.querySelector(`#${id}`);
    if (old && fresh && !isBusy(old)) morph(old, fresh);
  }
  tick();
  return main;
}

// ---- lists ----

/** @param {HTMLElement} part */
function keepCurrent(part) {
  const every = Number(part.dataset.refresh);
  const ids = [part.id, "tabs"];
  let failures = 0;
  const look = async () => {
    if (document.visibilityState === "visible") {
      try {
        const before = Number(part.dataset.waiting ?? 0);
        await refresh(ids);
        const after = Number(part.dataset.waiting ?? 0);
        if (after > before) announce(`${after} waiting for a decision`);
        failures = 0;
        showOffline(false);
      } catch {
        failures += 1;
        showOffline(failures > 1);
      }
    }
    setTimeout(look, every * Math.min(2 ** failures, 10));
  };
  setTimeout(look, every);
}

// ---- one run ----

/** @param {HTMLElement} run */
function watchRun(run) {
  const url = run.dataset.events;
  if (!url) return;
  const source = new EventSource(`${url}?after=${run.dataset.seq}`);
  let status = run.dataset.status;
  let asks = run.querySelectorAll(".ask").length;
  let pending = false;
  let asking = false;

  const update = async () => {
    if (asking) {
      pending = true;
      return;
    }
    asking = true;
    pending = false;
    try {
      await refresh(["run"]);
      document.title = `${run.dataset.title} · Drover`;
      if (run.dataset.status !== status) announce(`The run is ${run.dataset.status}`);
      const now = run.querySelectorAll(".ask").length;
      if (now > asks) announce("The run waits for a decision");
      status = run.dataset.status;
      asks = now;
      if (!run.dataset.events) source.close();
    } catch {
      pending = true;
    }
    // A fast run has many events: they are shown together, three times a second.
    setTimeout(() => {
      asking = false;
      if (pending) void update();
    }, 350);
  };

  listen(source, () => void update());
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
 * @param {EventSource} source
 * @param {() => void} update
 */
function listen(source, update) {
  const live = createLive();
  source.addEventListener("text", (event) => live.add(JSON.parse(event.data)));
  source.addEventListener("text_superseded", (event) => live.strike(JSON.parse(event.data)));
  for (const kind of kinds) source.addEventListener(kind, update);
  source.addEventListener("model_answered", () => {
    live.clear();
    update();
  });
  source.addEventListener("open", () => showOffline(false));
  source.addEventListener("error", () => {
    // Closed for good: the run has ended, or the server refuses. A look at the page tells which.
    if (source.readyState === EventSource.CLOSED) update();
    else showOffline(true);
  });
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

// ---- parts that are fetched when they are opened ----

/** @param {HTMLDetailsElement} details */
async function load(details) {
  const url = details.dataset.load;
  if (!url || !details.open || details.dataset.loaded) return;
  details.dataset.loaded = "yes";
  const place = details.querySelector(".load");
  try {
    const main = await fetchMain(url);
    if (main && place) place.replaceWith(...main.childNodes);
  } catch {
    // The link to the page itself is still there.
    delete details.dataset.loaded;
  }
}

document.addEventListener(
  "toggle",
  (event) => {
    if (event.target instanceof HTMLDetailsElement) void load(event.target);
  },
  true,
);

// A form that is on its way is not sent again by a second click.
document.addEventListener("submit", (event) => {
  if (!(event.target instanceof HTMLFormElement) || event.target.method !== "post") return;
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "yes";
});
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) form.removeAttribute("data-sent");
});

setInterval(tick, 1000);
for (const part of document.querySelectorAll("[data-refresh]")) if (part instanceof HTMLElement) keepCurrent(part);
for (const run of document.querySelectorAll("[data-events]")) if (run instanceof HTMLElement) watchRun(run);
