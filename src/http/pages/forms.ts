import { createHash } from "node:crypto";
import type { Scope } from "../../ports.ts";
import type { Caller } from "../types.ts";
import { type Html, html } from "./html.ts";

/** Whether the caller's key allows it. */
export function may({ scopes }: Caller, scope: Scope): boolean {
  return scopes.has(scope) || scopes.has("admin");
}

/** - `back`: the page to return to; - `hidden`: more fields. */
type FormParts = {
  caller: Caller;
  action: string;
  back: string;
  hidden?: Record<string, string | undefined> | undefined;
  body: Html;
  class?: string;
};

/** A form that changes something: it brings the token of whoever is signed in. */
export function form({ caller, action, back, hidden = {}, body, class: name = "action" }: FormParts): Html {
  const fields = Object.entries({ csrf: caller.csrf, back, ...hidden }).filter(([, value]) => value !== undefined);
  return html`<form method="post" action="${action}" class="${name}">
${fields.map(([field, value]) => html`<input type="hidden" name="${field}" value="${value}">`)}${body}
</form>`;
}

/**
 * Names what a form would do, so that a form sent twice does it once: by whom, to what, as of which moment. The same
 * page loaded again names it alike; once something has happened it is another act.
 */
export function actId(caller: Caller, ...parts: (string | number | undefined)[]): string {
  const text = JSON.stringify([caller.keyId ?? caller.name, ...parts.map((part) => part ?? null)]);
  return createHash("sha256").update(text).digest("hex").slice(0, 32);
}
