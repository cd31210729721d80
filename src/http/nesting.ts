import type { MiddlewareHandler } from "hono";
import { answerProblem } from "./problem.ts";
import type { HttpEnv } from "./types.ts";

/** Far more than any request needs. What reads values level by level would run out of stack at some thousands. */
const deepest = 100;

/** Refuses a body of JSON whose lists and objects lie too deep in each other, before anything reads it. */
export const limitNesting: MiddlewareHandler<HttpEnv> = async (context, next) => {
  const { method } = context.req;
  const type = context.req.header("content-type") ?? "";
  if (method === "GET" || method === "HEAD" || !/\bjson\b/i.test(type)) return next();
  if (isWithin(await context.req.text(), deepest)) return next();
  const detail = `The body nests lists and objects deeper than ${deepest} levels, which is the limit.`;
  return answerProblem(context, { status: 400, code: "invalid", detail });
};

const quote = 34;
const backslash = 92;
const opening = new Set([91, 123]);
const closing = new Set([93, 125]);

/** Whether no list or object of a JSON text lies more than `max` deep. Brackets within texts do not count. */
export function isWithin(json: string, max: number): boolean {
  let depth = 0;
  let inText = false;
  for (let at = 0; at < json.length; at += 1) {
    const code = json.charCodeAt(at);
    if (inText && code === backslash) at += 1;
    else if (code === quote) inText = !inText;
    else if (!inText && opening.has(code)) depth += 1;
    else if (!inText && closing.has(code)) depth -= 1;
    if (depth > max) return false;
  }
  return true;
}
