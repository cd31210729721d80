import { Hono, type MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import { atMost } from "../at-most.ts";
import { DroverError, unknownRun } from "../core/errors.ts";
import { runIdSchema } from "../core/new-run.ts";
import type { StartOptions } from "../engine/client.ts";
import type { RunHandle } from "../engine/run-handle.ts";
import { createAccess } from "./access/access.ts";
import { allowedMethods } from "./methods.ts";
import { limitNesting } from "./nesting.ts";
import { createPages } from "./pages/pages.ts";
import { answerProblem, createErrorHandler, isOpenAiPath, toProblem } from "./problem.ts";
import { redactRefusals } from "./redact-refusals.ts";
import { createRunsApi } from "./runs/runs-api.ts";
import { createServiceRoutes } from "./runs/service-routes.ts";
import { runsFor } from "./scoped-runs.ts";
import type { HttpApp, HttpContext, HttpDeps, HttpEnv, Peer, RunApi } from "./types.ts";
import { createV1 } from "./v1/v1.ts";

/**
 * All of HTTP as one function from Request to Response, so that it runs in any server and in tests without a socket.
 * Order: access (with the request's id, headers and log line around all that follows), limits of time and size, the
 * caller's runs, then `/v1`, the API and the pages.
 */
export function createHttp(deps: HttpDeps): (request: Request, peer?: Peer) => Promise<Response> {
  const app = new Hono<HttpEnv>();
  const access = createAccess(deps);
  const api = createRunsApi(deps);
  const runs = withSharedFeed(deps);
  app.onError(createErrorHandler(deps.logger));
  app.notFound((context) => answerUnserved(app, context));
  app.use(redactRefusals(deps.redactor));
  app.use(access.identify);
  app.use(limitTime(deps.settings.requestTimeoutMs));
  app.use(limitBody(deps.settings.bodyLimitBytes));
  app.use(limitNesting);
  app.use(async (context, next) => {
    const { caller } = context.var;
    // Whether the server is well, anybody may ask.
    if (caller) context.set("runs", runsFor(runs, caller));
    await next();
  });
  app.route("/", access.routes);
  app.route("/v1", createV1(deps));
  app.route("/", api);
  app.route("/", createServiceRoutes(deps, api));
  app.route("/", createPages(deps));
  return async (request, peer = {}) => app.fetch(request, peer);
}

/** Nothing is there, or nothing that takes the method: then `Allow` says what it takes (RFC 9110, 15.5.6). */
function answerUnserved(app: HttpApp, context: HttpContext): Response | Promise<Response> {
  const { method, path } = context.req;
  const allowed = allowedMethods(app, path);
  // Where the method is taken, what it asked for is what is not there.
  if (allowed.length === 0 || (method !== "OPTIONS" && allowed.includes(method))) {
    const detail = "Nothing is at this address. See /openapi.json.";
    return answerProblem(context, { status: 404, code: "not_found", detail });
  }
  const headers = { Allow: allowed.join(", ") };
  if (method === "OPTIONS") return context.body(null, 204, headers);
  const detail = `This address takes no ${method}, only ${allowed.join(", ")}. See /openapi.json.`;
  return answerProblem(context, { status: 405, code: "invalid", detail, headers });
}

/** Watching a run reads over what all watchers share. */
function withSharedFeed({ runs, watch, telemetry }: HttpDeps): RunApi {
  const share = (handle: RunHandle): RunHandle => ({
    ...handle,
    events: (options) => counted(watch.events(handle.id, options), telemetry),
  });
  const start = async (agent: string, input: string, options?: StartOptions): Promise<RunHandle> =>
    share(await runs.start(agent, input, options));
  return {
    ...runs,
    start: start as RunApi["start"],
    get: ((runId: string) => share(runs.get(checked(runId)))) as RunApi["get"],
    delete: async (runId) => runs.delete(checked(runId)),
  };
}

/** What cannot be a run's id is asked for nowhere: it could name another of its keys. */
function checked(runId: string): string {
  if (!runIdSchema.safeParse(runId).success) throw unknownRun(runId);
  return runId;
}

/** Events of somebody who counts as a watcher until they end. */
async function* counted<T>(events: AsyncGenerator<T>, telemetry: HttpDeps["telemetry"]): AsyncGenerator<T> {
  telemetry?.count({ what: "watcher" });
  try {
    yield* events;
  } finally {
    telemetry?.count({ what: "watcher" }, -1);
  }
}

/** Streams have begun by then; below `/v1` an answer may take as long as the model does. */
function limitTime(ms: number): MiddlewareHandler<HttpEnv> {
  return async (context, next) => {
    if (isOpenAiPath(context.req.path)) return next();
    if (await atMost(ms, next())) return;
    throw new DroverError("timeout", `The request was not answered within ${ms} ms. Ask again in a moment.`);
  };
}

function limitBody(maxSize: number): MiddlewareHandler<HttpEnv> {
  const error = new DroverError("too_large", `The body has more than ${maxSize} bytes, which is the limit.`);
  return bodyLimit({ maxSize, onError: (context) => answerProblem(context, toProblem(error)) });
}
