// @ts-check
// What all scripts of the pages share: ages that go on, and parts that are brought up to date.

import { forms } from "./ages.js";
import { morph } from "./morph.js";

const skew = Date.now() - Number(document.body.dataset.now || Date.now());
const announcer = document.getElementById("announcer");
const offline = document.getElementById("offline");

/** @param {string} text what a screen reader is to say, once */
export function announce(text) {
  if (announcer && announcer.textContent !== text) announcer.textContent = text;
}

/** @param {boolean} isOff */
export function showOffline(isOff) {
  if (offline) offline.hidden = !isOff;
}

// ---- ages ----

export function tick() {
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
export async function fetchMain(url) {
  const response = await fetch(url, { headers: { "x-fragment": "1", accept: "text/html" }, cache: "no-store" });
  if (response.redirected && new URL(response.url).pathname === "/login") location.reload();
  // What this page is of has been deleted: the page that says so takes its place.
  if (response.status === 404 && url === location.href) location.reload();
  if (!response.ok) throw new Error(`answered ${response.status}`);
  // Parts that are fetched on their own say nothing of it.
  const waiting = response.headers.get("x-waiting");
  if (waiting !== null) showWaiting(Number(waiting));
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

/**
 * Whether somebody is filling in a field there: nothing is to be moved from under it.
 * @param {Element} part
 */
export function isBusy(part) {
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
export async function refresh(ids) {
  const main = await fetchMain(location.href);
  for (const id of ids) {
    const old = document.getElementById(id);
    const fresh = main?.querySelector(`#${id}`);
    if (old && fresh) morph(old, fresh);
  }
  tick();
  return main;
}
