import { Hono } from "hono";
import { requireScope } from "../access/access.ts";
import type { HttpApp, HttpDeps, HttpEnv } from "../types.ts";
import { addChat } from "./chat.ts";
import { errorResponse, V1Error } from "./errors.ts";
import { findAgent, toModel } from "./models.ts";
import { addResponses } from "./responses.ts";
import { createResponsesLog } from "./responses-log.ts";

/** Endpoints for clients of OpenAI's API: models (agents), responses and chat completions (runs). */
export function createV1(deps: HttpDeps): HttpApp {
  const app = new Hono<HttpEnv>();
  const log = createResponsesLog(deps);
  app.onError((error, context) => {
    const { requestId } = context.var;
    const { method, path } = context.req;
    return errorResponse(context, error, (stack) =>
      deps.logger.error({ requestId, method, path, stack }, "a request failed"),
    );
  });
  app.use(async (context, next) => {
    context.header("x-request-id", context.var.requestId);
    await next();
  });

  app.get("/models", requireScope("read"), async (context) => {
    const agents = await deps.presence.agents();
    return context.json({ object: "list", data: agents.map(toModel) });
  });
  app.get("/models/:name", requireScope("read"), async (context) => {
    return context.json(toModel(await findAgent(deps, context.req.param("name"))));
  });
  addResponses(app, deps, log);
  addChat(app, deps);

  app.all("*", (context) => {
    const { method, path } = context.req;
    const message = `Unknown request URL: ${method} ${path}. Drover has /v1/models, /v1/responses and /v1/chat/completions.`;
    throw new V1Error(404, message, { code: "unknown_url" });
  });
  return app;
}
