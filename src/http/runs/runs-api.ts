import { OpenAPIHono } from "@hono/zod-openapi";
import type { HttpDeps, HttpEnv } from "../types.ts";
import { type Api, refuseMisfit } from "./endpoint.ts";
import { addEvents } from "./events.ts";
import { addStart } from "./start.ts";
import { addViews } from "./views.ts";

/** The HTTP API. */
export function createRunsApi(deps: HttpDeps): Api {
  const api: Api = new OpenAPIHono<HttpEnv>({ defaultHook: refuseMisfit });
  addStart(api, deps);
  addViews(api, deps);
  addEvents(api, deps);
  return api;
}
