import type { MiddlewareHandler } from "hono";
import { deepestNesting, isTextWithin } from "../core/nesting.ts";
import { answerProblem } from "./problem.ts";
import type { HttpEnv } from "./types.ts";

/** Refuses a body of JSON whose lists and objects lie too deep in each other, before anything reads it. */
export const limitNesting: MiddlewareHandler<HttpEnv> = async (context, next) => {
  const { method } = context.req;
  const type = context.req.header("content-type") ?? "";
  if (method === "GET" || method === "HEAD" || !/\bjson\b/i.test(type)) return next();
  if (isTextWithin(await context.req.text())) return next();
  const detail = `The body nests lists and objects deeper than ${deepestNesting} levels, which is the limit.`;
  return answerProblem(context, { status: 400, code: "invalid", detail });
};
