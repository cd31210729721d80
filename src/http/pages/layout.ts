import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { Caller, HttpContext } from "../types.ts";
import { assets } from "./assets.ts";
import { type Html, html } from "./html.ts";

/** - `nav`: the entry of the navigation that this page belongs to; - `wide`: takes the whole window. */
export type Page = {
  title: string;
  main: Html;
  nav?: "runs" | "approvals" | "fleet" | undefined;
  wide?: boolean | undefined;
  /** Undefined: nobody has signed in, so there is nowhere to go. */
  caller?: Caller | undefined;
  /** Decisions that wait for a person, shown in the navigation. */
  waiting?: number | undefined;
  /** Epoch ms by the server; ages are counted from it. */
  now?: number | undefined;
};

/** A whole page: head, navigation and what is in it. Everything it needs comes from this server. */
export function layout(page: Page): Html {
  const { title, main, wide, caller, now } = page;
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>${title} · Drover</title>
<link rel="icon" type="image/svg+xml" href="${assets.icon}">
<link rel="stylesheet" href="${assets.style}">
<script type="module" src="${assets.script}"></script>
</head>
<body data-now="${now}">
<a class="skip" href="#main">Skip to content</a>
<header class="bar">
<a class="brand" href="/"><img src="${assets.icon}" alt="" width="20" height="20">Drover</a>
${caller ? navigation(page, caller) : ""}
</header>
<main id="main" class="${wide ? "wide" : "narrow"}" tabindex="-1">
${main}
</main>
<p id="announcer" class="unseen" role="status"></p>
<p id="offline" class="offline" hidden>Not live: the server does not answer. Trying again.</p>
</body>
</html>`;
}

function navigation({ nav, waiting = 0 }: Page, caller: Caller): Html {
  const entry = (name: Page["nav"], href: string, label: unknown): Html =>
    html`<li><a href="${href}" ${nav === name ? html`aria-current="page"` : ""}>${label}</a></li>`;
  const count =
    waiting > 0 ? html` <span class="count-badge">${waiting}<span class="unseen"> waiting</span></span>` : "";
  return html`<nav aria-label="Main"><ul>
${entry("runs", "/", "Runs")}
${entry("approvals", "/ui/approvals", html`Approvals${count}`)}
${caller.scopes.has("admin") && caller.tenant === undefined ? entry("fleet", "/ui/fleet", "Fleet") : ""}
</ul></nav>
<div class="who">${caller.csrf === undefined ? "" : signOut(caller, caller.csrf)}</div>`;
}

function signOut({ name }: Caller, csrf: string): Html {
  return html`<span class="who-name">${name}</span><form method="post" action="/logout"><input type="hidden" name="csrf" value="${csrf}"><button class="quiet">Sign out</button></form>`;
}

/** - `next`: what to do about it; paragraphs and links. */
export type Trouble = {
  status: ContentfulStatusCode;
  title: string;
  text: string;
  next?: Html | undefined;
};

/** The answer to a request of a browser that could not be served. */
export function troublePage(
  context: HttpContext,
  { status, title, text, next }: Trouble,
): Response | Promise<Response> {
  const caller = context.var.caller as Caller | undefined;
  const requestId = context.var.requestId as string | undefined;
  const main = html`<div class="trouble">
<h1>${title}</h1>
<p>${text}</p>
${next ?? whatNext(status, caller !== undefined)}
${requestId === undefined ? "" : html`<p class="hint">Request <code>${requestId}</code></p>`}
</div>`;
  return context.html(layout({ title, main, caller }), status);
}

function whatNext(status: number, isSignedIn: boolean): Html {
  if (status >= 500) {
    return html`<p>Runs go on as long as their workers reach Redis, whatever this page says. Try again in a moment; if it stays like this, <code>drover doctor</code> tells what is wrong.</p>`;
  }
  return isSignedIn ? html`<p><a href="/">All runs</a></p>` : html``;
}

/** Whether a person's browser asks, who is answered with a page. */
export function wantsPage(context: HttpContext): boolean {
  return (context.req.header("accept") ?? "").includes("text/html");
}
