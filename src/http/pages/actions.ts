import { createHash } from "node:crypto";
import { z } from "zod";
import type { Limits } from "../../core/agent.ts";
import { DroverError } from "../../core/errors.ts";
import { isForm } from "../access/guard.ts";
import { ProblemError } from "../problem.ts";
import type { HttpContext } from "../types.ts";
import { isText } from "./asks.ts";
import { html, path, query } from "./html.ts";
import { troublePage } from "./layout.ts";
import type { Notice } from "./respond.ts";
import { param } from "./run-page.ts";

// What the forms of the pages do. Each leads back to a page that tells its result, so that loading it again does
// nothing; a form that is sent twice does what it does once.

type Done = { notice: Notice; back?: string };
export type Act = (context: HttpContext, form: Form) => Promise<Done>;

/** Fields of the forms; each has some of them, and those of a retry. */
type Form = {
  back?: string | undefined;
  decisionId?: string | undefined;
  argumentsHash?: string | undefined;
  reason?: string | undefined;
  value?: string | undefined;
  text?: string | undefined;
};
const text = z.string().max(100_000);
const formSchema: z.ZodType<Form> = z.looseObject({
  back: text.optional(),
  decisionId: z.string().min(1).max(128).optional(),
  argumentsHash: z.string().max(128).optional(),
  reason: text.optional(),
  value: text.optional(),
  text: text.optional(),
});

/** Makes a handler of what is to be done. What stands against it is told, with where to go. */
export function handle(act: Act): (context: HttpContext) => Promise<Response> {
  return async (context) => {
    const parsed = formSchema.safeParse(await readForm(context));
    if (!parsed.success) {
      const [issue] = parsed.error.issues;
      throw new DroverError("invalid", `${issue?.path.join(".") || "form"}: ${issue?.message}.`);
    }
    try {
      const { notice, back } = await act(context, bindAct(parsed.data));
      return context.redirect((back ?? toOwnPath(parsed.data.back)) + query({ notice }), 303);
    } catch (error) {
      if (!(error instanceof DroverError) || error.code !== "not_allowed") throw error;
      return tooLate(context, error, toOwnPath(parsed.data.back));
    }
  };
}

/** Forms of our pages are of one type, which can be read whatever is in it. @throws ProblemError 415 */
async function readForm(context: HttpContext): Promise<unknown> {
  if (context.req.header("content-type") === undefined) return {};
  if (isForm(context)) return context.req.parseBody();
  const detail = "Nothing was done: a form is sent as application/x-www-form-urlencoded. Send it from the page.";
  throw new ProblemError({ status: 415, code: "invalid", detail });
}

/**
 * The name that the form has for what it does, bound to what was typed: the same words sent again are the same act, other
 * words in a page that was not loaded again are not.
 */
function bindAct(form: Form): Form {
  const { decisionId } = form;
  if (decisionId === undefined) return form;
  // Whoever has to sign in again has another token.
  const typed = Object.entries(form).filter(([name]) => name !== "back" && name !== "csrf" && name !== "decisionId");
  const words = JSON.stringify([decisionId, typed.toSorted(([a], [b]) => (a < b ? -1 : 1))]);
  return { ...form, decisionId: createHash("sha256").update(words).digest("hex").slice(0, 32) };
}

/** Somebody was first, or the run went on meanwhile: no fault of whoever asks. */
function tooLate(context: HttpContext, error: DroverError, back: string): Response | Promise<Response> {
  const runId = param(context, "id");
  return troublePage(context, {
    status: 409,
    title: context.req.param("callId") === undefined ? "Not as the run is now" : "This was settled meanwhile",
    text: error.message,
    next: html`<p>Nothing was changed by you. <a href="${back}">Back</a> or <a href="${path`/ui/runs/${runId}`}">to the run as it is now</a>.</p>`,
  });
}

/** Of our pages, and without anything behind it: a form must not lead elsewhere. */
function toOwnPath(back: string | undefined): string {
  return back !== undefined && /^\/(?:ui\/[\w.~%/-]*)?$/.test(back) ? back : "/";
}

export const given = (value: string | undefined): string | undefined => value?.trim() || undefined;

export const approve: Act = async (context, { decisionId, argumentsHash }) => {
  const run = context.var.runs.get(param(context, "id"));
  const by = context.var.caller.name;
  await run.approve(param(context, "callId"), { by, decisionId, argumentsHash: given(argumentsHash) });
  return { notice: "approved" };
};

export const deny: Act = async (context, { decisionId, reason }) => {
  const run = context.var.runs.get(param(context, "id"));
  const by = context.var.caller.name;
  await run.deny(param(context, "callId"), { by, decisionId, reason: given(reason) });
  return { notice: "denied" };
};

export const answer: Act = async (context, { decisionId, value = "" }) => {
  const run = context.var.runs.get(param(context, "id"));
  const callId = param(context, "callId");
  const by = context.var.caller.name;
  const { openCalls } = await run.status();
  const schema = openCalls.find((call) => call.callId === callId)?.answerSchema;
  await run.answer(callId, isText(schema) ? value : parseAnswer(value), { by, decisionId });
  return { notice: "answered" };
};

function parseAnswer(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new DroverError(
      "invalid",
      `value: expected JSON, got "${text.slice(0, 200)}". Go back and write it as JSON; the question shows its schema.`,
    );
  }
}

export const cancel: Act = async (context, { reason }) => {
  const run = context.var.runs.get(param(context, "id"));
  const by = context.var.caller.name;
  const asked = given(reason);
  const done = await run.cancel({ by, ...(asked === undefined ? {} : { reason: asked }) });
  return { notice: done ? "cancelled" : "ended-before" };
};

const amount = (name: string, whole: boolean): z.ZodType<number | undefined> =>
  z
    .string()
    .trim()
    .optional()
    .transform((value, context) => {
      if (value === undefined || value === "") return undefined;
      const number = Number(value);
      if (Number.isFinite(number) && number > 0 && (!whole || Number.isSafeInteger(number))) return number;
      context.addIssue({
        code: "custom",
        message: `${name}: expected a ${whole ? "whole " : ""}number above 0, got "${value.slice(0, 100)}"`,
      });
      return z.NEVER;
    });
const limitsSchema = z.looseObject({
  maxTurns: amount("Turns", true),
  maxTokens: amount("Tokens", true),
  maxCostUsd: amount("Cost", false),
  deadlineMinutes: amount("Deadline", false),
});

export const retry: Act = async (context, form) => {
  const parsed = limitsSchema.safeParse(form);
  if (!parsed.success) {
    throw new DroverError(
      "invalid",
      `The run was not retried. ${parsed.error.issues.map(({ message }) => message).join("; ")}.`,
    );
  }
  const { maxTurns, maxTokens, maxCostUsd, deadlineMinutes } = parsed.data;
  const deadlineMs = deadlineMinutes === undefined ? undefined : Math.ceil(deadlineMinutes * 60_000);
  const set = Object.entries({ maxTurns, maxTokens, maxCostUsd, deadlineMs }).filter(
    ([, value]) => value !== undefined,
  );
  const limits: Limits = Object.fromEntries(set);
  const by = context.var.caller.name;
  const { decisionId: retryId } = form;
  const given = { ...(set.length === 0 ? {} : { limits }), ...(retryId === undefined ? {} : { retryId }) };
  await context.var.runs.get(param(context, "id")).retry({ by, ...given });
  return { notice: "retried" };
};

export const send: Act = async (context, form) => {
  const message = form.text?.trim() ?? "";
  if (message === "") throw new DroverError("invalid", "Nothing was sent: the message is empty.");
  const inputId = form.decisionId;
  const options = { by: context.var.caller.name, ...(inputId === undefined ? {} : { inputId }) };
  await context.var.runs.get(param(context, "id")).send(message, options);
  return { notice: "sent" };
};

export const remove: Act = async (context) => {
  await context.var.runs.delete(param(context, "id"));
  return { notice: "deleted", back: "/" };
};
