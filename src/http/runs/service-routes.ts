import { OpenAPIHono } from "@hono/zod-openapi";
import { z } from "zod";
import { atMost } from "../../at-most.ts";
import { DroverError } from "../../core/errors.ts";
import { answerProblem } from "../problem.ts";
import type { HttpDeps, HttpEnv } from "../types.ts";
import { type Api, addEndpoint } from "./endpoint.ts";
import { makeDocument } from "./openapi.ts";

const okSchema = z.object({ status: z.literal("ok") });

/** Whether the process lives and can work, which anybody may ask without a key, and what the API is. */
export function createServiceRoutes(deps: HttpDeps, api: Api): Api {
  const open: Api = new OpenAPIHono<HttpEnv>();
  const document = (): object => {
    documented ??= makeDocument([open, api]);
    return documented;
  };
  let documented: object | undefined;
  addEndpoint(
    open,
    {
      method: "get",
      path: "/healthz",
      tag: "Service",
      summary: "Whether the process lives",
      open: true,
      answers: { 200: { description: "It does", schema: okSchema } },
    },
    (context) => context.json({ status: "ok" }),
  );
  addEndpoint(
    open,
    {
      method: "get",
      path: "/readyz",
      tag: "Service",
      summary: "Whether the server can work",
      open: true,
      answers: { 200: { description: "Redis answers and is set as it must be", schema: okSchema } },
      problems: [503],
    },
    async (context) => {
      const reason = await whyNotReady(deps);
      if (reason === undefined) return context.json({ status: "ok" });
      return answerProblem(context, {
        status: 503,
        code: deps.closing?.aborted ? "stopped" : "queue_unavailable",
        detail: reason,
        headers: { "Retry-After": "2" },
      });
    },
  );
  addEndpoint(
    open,
    {
      method: "get",
      path: "/openapi.json",
      tag: "Service",
      summary: "This API as OpenAPI 3.1",
      answers: { 200: { description: "The document", schema: z.looseObject({ openapi: z.string() }) } },
    },
    (context) => context.json(document()),
  );
  return open;
}

const readyWithinMs = 2_000;

async function whyNotReady({ ready, closing }: HttpDeps): Promise<string | undefined> {
  if (closing?.aborted) return "The server is closing.";
  const silent = "Redis does not answer. Check that it runs and that REDIS_URL leads to it.";
  try {
    return (await atMost(readyWithinMs, ready())) ? undefined : silent;
  } catch (error) {
    // Its message names a setting and what to set, and no address.
    if (error instanceof DroverError && error.code === "unsupported") return error.message;
    return silent;
  }
}
