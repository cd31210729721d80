import { z } from "zod";
import { refuseTenants } from "../access/access.ts";
import { knownAgents } from "../known-agents.ts";
import { answerProblem } from "../problem.ts";
import type { HttpDeps } from "../types.ts";
import { type Api, addEndpoint } from "./endpoint.ts";
import { runIdParams } from "./parameters.ts";
import { agentsSchema, countsSchema, fleetSchema, pausedFleetSchema, resumedFleetSchema } from "./schemas.ts";

/** What there is in all: counts, agents, workers, metrics; and the removal of runs. */
export function addFleet(api: Api, deps: HttpDeps): void {
  addCounts(api, deps);
  addWhole(api, deps);
  addFleetPause(api, deps);
  addDelete(api);
}

function addCounts(api: Api, deps: HttpDeps): void {
  addEndpoint(
    api,
    {
      method: "get",
      path: "/counts",
      tag: "Fleet",
      summary: "How many runs there are of each status",
      scope: "read",
      query: z.strictObject({ agent: z.string().max(128).optional().describe("Of this agent alone") }),
      answers: { 200: { description: "By status", schema: countsSchema } },
    },
    async (context, { query }) => context.json(await context.var.runs.count(query)),
  );
  addEndpoint(
    api,
    {
      method: "get",
      path: "/agents",
      tag: "Fleet",
      summary: "Agents that some worker knows or knew",
      description: "For a key of a tenant: those that the tenant has runs of.",
      scope: "read",
      answers: { 200: { description: "By name", schema: agentsSchema } },
    },
    async (context) => context.json({ agents: await knownAgents(deps, context) }),
  );
}

/** What tells of all tenants together. */
function addWhole(api: Api, deps: HttpDeps): void {
  addEndpoint(
    api,
    {
      method: "get",
      path: "/fleet",
      tag: "Fleet",
      summary: "Workers, queues, limits and Redis as they are now",
      description: "Not for keys of a tenant.",
      scope: "admin",
      middleware: refuseTenants,
      answers: { 200: { description: "The installation", schema: fleetSchema } },
    },
    async (context) => context.json(await deps.fleet.read()),
  );
  addEndpoint(
    api,
    {
      method: "get",
      path: "/metrics",
      tag: "Fleet",
      summary: "Metrics in Prometheus's text format",
      description: "Not for keys of a tenant.",
      scope: "read",
      middleware: refuseTenants,
      answers: { 200: { description: "Metrics", content: { "text/plain": { schema: z.string() } } } },
      problems: [404],
    },
    async (context) => {
      if (deps.metrics) return context.text(await deps.metrics(), 200, { "Content-Type": prometheusType });
      return answerProblem(context, { status: 404, code: "not_found", detail: "Metrics are off on this server." });
    },
  );
}

/** Stopping all work at once, and letting it go on. */
function addFleetPause(api: Api, deps: HttpDeps): void {
  addEndpoint(
    api,
    {
      method: "post",
      path: "/fleet/pause",
      tag: "Fleet",
      summary: "Let no step begin anywhere until the fleet is resumed",
      description:
        "Answers once every worker takes no more steps, or after five seconds. What is being executed may end; what is started or retried waits. It outlives restarts of workers and of Redis. Not for keys of a tenant.",
      scope: "admin",
      middleware: refuseTenants,
      body: z.strictObject({ reason: z.string().min(1).max(10_000).optional().describe("For the record") }),
      answers: {
        200: { description: "Who paused it, and how many workers still take steps", schema: pausedFleetSchema },
      },
    },
    async (context, { body }) => {
      const { reason } = body as { reason?: string };
      const by = context.var.caller.name;
      return context.json(await deps.pausing.pauseAll({ by, reason }));
    },
  );
  addEndpoint(
    api,
    {
      method: "post",
      path: "/fleet/resume",
      tag: "Fleet",
      summary: "Let a paused fleet go on",
      description: "Runs that were paused one by one stay so. Not for keys of a tenant.",
      scope: "admin",
      middleware: refuseTenants,
      answers: { 200: { description: "Whether it was paused", schema: resumedFleetSchema } },
    },
    async (context) => context.json({ applied: await deps.pausing.resumeAll() }),
  );
}

function addDelete(api: Api): void {
  addEndpoint(
    api,
    {
      method: "delete",
      path: "/runs/{runId}",
      tag: "Runs",
      summary: "Delete a run that has ended",
      description:
        "With all that is kept of it; a session's transcript stays. Also one whose record is damaged, so that it can neither go on nor be cancelled.",
      scope: "admin",
      params: runIdParams,
      answers: {
        200: { description: "It is gone; its record was damaged", schema: z.object({ damage: z.string() }) },
        204: { description: "It is gone" },
      },
      problems: [404, 409],
    },
    async (context, { params }) => {
      const { damage } = await context.var.runs.delete(params.runId);
      return damage === undefined ? context.body(null, 204) : context.json({ damage });
    },
  );
}

const prometheusType = "text/plain; version=0.0.4; charset=utf-8";
