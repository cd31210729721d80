import type { HttpContext, HttpDeps } from "../types.ts";
import { type Html, html } from "./html.ts";
import type { Inbox } from "./inbox.ts";
import { layout, type Page } from "./layout.ts";
import { notice } from "./parts.ts";

/** What the handlers of all pages share. */
export type PageParts = { deps: HttpDeps; inbox: Inbox };

/** Answers with the page, or with its main part alone if a script of the page asks for what has changed. */
export async function respond(
  { deps, inbox }: PageParts,
  context: HttpContext,
  page: Pick<Page, "title" | "main" | "nav" | "wide">,
): Promise<Response> {
  const { caller, runs } = context.var;
  const waiting = await inbox.count(runs, caller);
  context.header("vary", "x-fragment");
  if (context.req.header("x-fragment") !== undefined) {
    context.header("x-waiting", String(waiting));
    return context.html(page.main);
  }
  return context.html(layout({ ...page, caller, waiting, now: deps.now() }));
}

// A closed list: a link must not be able to put words on the page.
const notices = {
  approved: ["good", "Approved. The call is on its way."],
  denied: ["good", "Denied. The model is told."],
  answered: ["good", "Answered. The run goes on."],
  cancelled: ["good", "Cancelled. What was under way is aborted."],
  "ended-before": ["warn", "It had ended before it could be cancelled."],
  paused: ["good", "Paused. Nothing of it begins until it is resumed; what is under way may end."],
  "paused-before": ["warn", "It was paused already."],
  resumed: ["good", "Resumed. It goes on where it was."],
  "not-paused": ["warn", "It was not paused."],
  "fleet-paused": ["good", "The fleet is paused. No worker takes a step."],
  "fleet-pausing": ["warn", "The fleet is paused, but some workers have not said yet that they take no more steps."],
  "fleet-resumed": ["good", "The fleet goes on."],
  sent: ["good", "Sent. It enters before the next model call."],
  retried: ["good", "Retried. It goes on from where it failed."],
  deleted: ["good", "Deleted, with all that was kept of it."],
} as const;
export type Notice = keyof typeof notices;

/** The result of the action that led here. */
export function noticeOf(context: HttpContext): Html | undefined {
  const name = context.req.query("notice") ?? "";
  if (!Object.hasOwn(notices, name)) return undefined;
  const [tone, text] = notices[name as Notice];
  return html`${notice(tone, text)}`;
}

/** A whole number from the page's address; undefined if there is none that makes sense. */
export function numberOf(context: HttpContext, name: string): number | undefined {
  const text = context.req.query(name) ?? "";
  return /^\d{1,9}$/.test(text) ? Number(text) : undefined;
}
