import { z } from "zod";
import { DroverError } from "../../core/errors.ts";
import type { RunHandle } from "../../engine/run-handle.ts";
import type { HttpContext, HttpDeps } from "../types.ts";
import { type Api, addEndpoint } from "./endpoint.ts";
import { listQuery, metadataOf, numberParam, runIdParams } from "./parameters.ts";
import { auditSchema, resultSchema, runSchema, runsSchema, turnsSchema } from "./schemas.ts";

/** What runs are and have done. */
export function addViews(api: Api, deps: HttpDeps): void {
  addList(api);
  addEndpoint(
    api,
    {
      method: "get",
      path: "/runs/{runId}",
      tag: "Runs",
      summary: "A run as it is now",
      scope: "read",
      params: runIdParams,
      answers: { 200: { description: "The run", schema: runSchema } },
      problems: [404],
    },
    async (context, { params }) => context.json(await context.var.runs.get(params.runId).status()),
  );
  addResult(api, deps);
  addTurns(api);
  addEndpoint(
    api,
    {
      method: "get",
      path: "/runs/{runId}/audit",
      tag: "Runs",
      summary: "Who did what to the run",
      scope: "read",
      params: runIdParams,
      answers: { 200: { description: "The acts, oldest first", schema: auditSchema } },
      problems: [404],
    },
    async (context, { params }) => context.json({ entries: await context.var.runs.get(params.runId).audit() }),
  );
}

function addList(api: Api): void {
  addEndpoint(
    api,
    {
      method: "get",
      path: "/runs",
      tag: "Runs",
      summary: "List runs, the newest first",
      description:
        "Also filters by fields of metadata that are text: `metadata.customer=acme`. Several filters must all fit.",
      scope: "read",
      query: listQuery,
      answers: {
        200: { description: "A page of runs. `cursor`, if there is more, goes on from here", schema: runsSchema },
      },
    },
    async (context, { query }) => {
      const { since, until, status, agent, session, search, limit, cursor } = query;
      const filter = { status, agent, session, search, limit, cursor, createdAfter: since, createdBefore: until };
      return context.json(await context.var.runs.list({ ...filter, metadata: metadataOf(query) }));
    },
  );
}

function addResult(api: Api, deps: HttpDeps): void {
  // The answer must be out before the request's own time is.
  const longest = Math.max(0, Math.floor(deps.settings.requestTimeoutMs * 0.9));
  addEndpoint(
    api,
    {
      method: "get",
      path: "/runs/{runId}/result",
      tag: "Runs",
      summary: "How a run ended",
      description:
        "Waits for the end, up to `waitMs` and to the server's limit of time for a request. Ask again after 202.",
      scope: "read",
      params: runIdParams,
      query: z.strictObject({ waitMs: numberParam(0, 600_000, "Wait so many ms for the end. Default 0") }),
      answers: {
        200: { description: "The run has ended", schema: resultSchema },
        202: { description: "It goes on. This is the run as it is now", schema: runSchema },
      },
      problems: [404],
    },
    async (context, { params, query }) => {
      const run = context.var.runs.get(params.runId);
      return answerResult(context, run, Math.min(query.waitMs ?? 0, longest));
    },
  );
}

async function answerResult(context: HttpContext, run: RunHandle, timeoutMs: number): Promise<Response> {
  try {
    return context.json(await run.result({ timeoutMs, signal: context.req.raw.signal }));
  } catch (error) {
    if (!(error instanceof DroverError) || error.code !== "timeout") throw error;
    return context.json(await run.status(), 202, { "Retry-After": "1" });
  }
}

function addTurns(api: Api): void {
  addEndpoint(
    api,
    {
      method: "get",
      path: "/runs/{runId}/turns",
      tag: "Runs",
      summary: "What happened, turn by turn",
      description:
        "Steps with their times, what the model was sent and said, calls with their results; secrets redacted.",
      scope: "read",
      params: runIdParams,
      query: z.strictObject({
        from: numberParam(1, Number.MAX_SAFE_INTEGER, "The first turn, from 1. Default 1"),
        limit: numberParam(1, 200, "At most so many. Default 20"),
        requests: z.enum(["true", "false"]).optional().describe("`false`: only an overview of each request"),
      }),
      answers: { 200: { description: "A page of turns, and how many there are", schema: turnsSchema } },
      problems: [404],
    },
    async (context, { params, query }) => {
      const { from, limit, requests } = query;
      const page = await context.var.runs.get(params.runId).turns({ from, limit, requests: requests !== "false" });
      return context.json(page);
    },
  );
}
