// @ts-check
// What the pages do beyond being read: ages that go on, lists that stay current, a run that is watched as it happens.
// Without it everything is still there; one has to load the page again.

import { announce, fetchMain, isBusy, refresh, showOffline, tick } from "./page.js";
import { watchRun } from "./run.js";

// ---- lists ----

/** @param {HTMLElement} part */
function keepCurrent(part) {
  const every = Number(part.dataset.refresh);
  const ids = [part.id, "tabs"];
  let failures = 0;
  const look = async () => {
    if (document.visibilityState === "visible" && !isBusy(part)) {
      try {
        const before = Number(part.dataset.waiting ?? 0);
        await refresh(ids);
        const after = Number(part.dataset.waiting ?? 0);
        if (after > before) announce(`${after} waiting for a decision`);
        if (part.dataset.title) document.title = `${part.dataset.title} · Drover`;
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

// The result of an action is told once, not again when the page is loaded again.
const here = new URL(location.href);
if (here.searchParams.has("notice")) {
  here.searchParams.delete("notice");
  history.replaceState(history.state, "", here);
}

setInterval(tick, 1000);
for (const part of document.querySelectorAll("[data-refresh]")) if (part instanceof HTMLElement) keepCurrent(part);
for (const run of document.querySelectorAll("[data-events]")) if (run instanceof HTMLElement) watchRun(run);
