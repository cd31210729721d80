import type { HttpDeps } from "../types.ts";
import { type Api, addEndpoint } from "./endpoint.ts";
import { runIdParams } from "./parameters.ts";
import { runSchema } from "./schemas.ts";

/** What a run is and has done. */
export function addViews(api: Api, _deps: HttpDeps): void {
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
}
