import { createHash } from "node:crypto";
import { z } from "zod";
import { limitsSchema } from "../../core/agent.ts";
import { canonical } from "../../core/canonical.ts";
import { DroverError } from "../../core/errors.ts";
import { inputSchema } from "../../core/message.ts";
import { runIdSchema } from "../../core/new-run.ts";
import type { Run } from "../../core/run.ts";
import { ProblemError } from "../problem.ts";
import type { Caller, HttpContext, HttpDeps } from "../types.ts";
import { type Api, addEndpoint } from "./endpoint.ts";
import { idempotencyKeySchema, traceparentSchema } from "./parameters.ts";
import { runSchema } from "./schemas.ts";

const startSchema = z
  .strictObject({
    agent: z.string().min(1).max(128).describe("Name of an agent that some worker knows"),
    input: inputSchema.describe("Text, or messages"),
    runId: runIdSchema.optional().describe("Default: a new one, or one made of the `Idempotency-Key`"),
    session: runIdSchema.optional().describe("Runs of one session share a transcript and take turns"),
    whenBusy: z
      .enum(["queue", "inject"])
      .optional()
      .describe("While a run of the session is active: wait in line (default), or enter that run between its turns"),
    metadata: z.record(z.string(), z.unknown()).optional().describe("Your own fields; `GET /runs` can filter by them"),
    limits: limitsSchema.optional().describe("Can only tighten the agent's"),
    priority: z.int().min(1).max(2_097_152).optional().describe("Lower goes first. Default: by age"),
    delayMs: z.int().min(0).optional().describe("The first step is owed only after so many ms"),
    dryRun: z.boolean().optional().describe("Reads are executed, all else is only described to the model"),
  })
  .refine(({ session, whenBusy }) => whenBusy === undefined || session !== undefined, {
    path: ["session"],
    message: "must be the id of a session, since whenBusy is given",
  })
  .meta({ id: "Start" });
type Start = z.output<typeof startSchema>;

const headersSchema = z.object({
  "idempotency-key": idempotencyKeySchema,
  traceparent: traceparentSchema,
});

export function addStart(api: Api, deps: HttpDeps): void {
  addEndpoint(
    api,
    {
      method: "post",
      path: "/runs",
      tag: "Runs",
      summary: "Start a run",
      description:
        "With an `Idempotency-Key` (or a `runId`) the request can be sent again, after a lost reply say: it starts one run. The run's id is then made of the key and the caller's tenant.",
      scope: "start",
      headers: headersSchema,
      body: startSchema,
      answers: {
        201: { description: "The run is new", schema: runSchema, headers: location },
        200: {
          description: "The run was there already, or the input went into it",
          schema: runSchema,
          headers: location,
        },
      },
      problems: [409, 422],
    },
    (context, { headers, body }) => start(context, deps, { headers, body }),
  );
}

const location = { Location: { description: "Where the run is", schema: { type: "string" as const } } };

type Given = { headers: z.output<typeof headersSchema>; body: Start };

async function start(context: HttpContext, deps: HttpDeps, { headers, body }: Given): Promise<Response> {
  const { caller, runs } = context.var;
  const { "idempotency-key": key, traceparent } = headers;
  const { agent, input, ...options } = body;
  const runId = options.runId ?? (key === undefined ? undefined : toRunId(key, caller));
  const before = await findBefore(deps, runId);
  const handle = await runs.start(agent, input, { ...options, runId, traceparent }).catch((error: unknown) => {
    throw key !== undefined && isConflict(error) ? reused() : error;
  });
  const own = runId === undefined || handle.id === runId;
  if (before && key !== undefined && own) refuseOther(before, body);
  const view = await handle.status();
  return context.json(view, before || !own ? 200 : 201, { Location: `/runs/${encodeURIComponent(view.runId)}` });
}

/** The run that has the id already, be it another tenant's: then it cannot be started. */
async function findBefore({ store }: HttpDeps, runId: string | undefined): Promise<Run | null> {
  const run = runId === undefined ? null : await store.load(runId);
  return run?.status === "rejected" ? null : run;
}

const isConflict = (error: unknown): boolean => error instanceof DroverError && error.code === "conflict";

/** The id of the run that a key starts. Tenants cannot meet each other's, and none can be guessed from a key alone. */
function toRunId(key: string, { tenant }: Caller): string {
  const hash = createHash("sha256")
    .update(canonical([tenant ?? null, key]))
    .digest("hex");
  return `key-${hash.slice(0, 40)}`;
}

const reused = (): ProblemError =>
  new ProblemError({
    status: 422,
    code: "conflict",
    detail: "This Idempotency-Key was used for another request. Send a new key, or the first request as it was.",
  });

/** Agent, input and session are compared where the run is started; the rest of the request is compared here. */
function refuseOther(run: Run, { metadata = {}, limits = {}, priority }: Start): void {
  const kept = canonical([run.metadata, run.limits, run.priority ?? null]);
  if (kept !== canonical([metadata, limits, priority ?? null])) throw reused();
}
