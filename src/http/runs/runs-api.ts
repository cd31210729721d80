import { OpenAPIHono } from "@hono/zod-openapi";
import type { HttpDeps, HttpEnv } from "../types.ts";
import { addCommands } from "./commands.ts";
import { addContent } from "./content.ts";
import { type Api, refuseMisfit } from "./endpoint.ts";
import { addEvents } from "./events.ts";
import { addFleet } from "./fleet.ts";
import { addStart } from "./start.ts";
import { addViews } from "./views.ts";

/** The HTTP API. */
export function createRunsApi(deps: HttpDeps): Api {
  const api: Api = new OpenAPIHono<HttpEnv>({ defaultHook: refuseMisfit });
  addStart(api, deps);
  addViews(api, deps);
  addContent(api, deps);
  addEvents(api, deps);
  addCommands(api);
  addFleet(api, deps);
  return api;
}
