import { Hono } from "hono";
import { createAccess } from "./access/access.ts";
import { createPages } from "./pages/pages.ts";
import { createRunsApi } from "./runs/runs-api.ts";
import { runsFor } from "./scoped-runs.ts";
import type { HttpDeps, HttpEnv, Peer } from "./types.ts";
import { createV1 } from "./v1/v1.ts";

/**
 * All of HTTP as one function from Request to Response, so that it runs in any server and in tests without a socket.
 * Order: request id and headers, access, the caller's runs, then the API, `/v1` and the pages.
 */
export function createHttp(deps: HttpDeps): (request: Request, peer?: Peer) => Promise<Response> {
  const app = new Hono<HttpEnv>();
  const access = createAccess(deps);
  app.use(access.identify);
  app.use(async (context, next) => {
    context.set("runs", runsFor(deps.runs, context.var.caller));
    await next();
  });
  app.route("/", access.routes);
  app.route("/v1", createV1(deps));
  app.route("/", createRunsApi(deps));
  app.route("/", createPages(deps));
  return async (request, peer = {}) => app.fetch(request, peer);
}
