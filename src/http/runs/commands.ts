import { z } from "zod";
import { limitsSchema } from "../../core/agent.ts";
import type { InputMessage } from "../../core/message.ts";
import { inputSchema } from "../../core/message.ts";
import type { RunHandle } from "../../engine/run-handle.ts";
import type { Scope } from "../../ports-operators.ts";
import type { HttpContext } from "../types.ts";
import { type Api, addEndpoint } from "./endpoint.ts";
import { callParams, idempotencyHeaders, runIdParams } from "./parameters.ts";
import { runSchema } from "./schemas.ts";

const reason: z.ZodType<string | undefined> = z.string().min(1).max(10_000).optional().describe("For the record");

/** What is done to runs and their calls. Each answers with the run as it is afterwards. */
export function addCommands(api: Api): void {
  addRunCommands(api);
  addCallCommands(api);
}

function addRunCommands(api: Api): void {
  addRunCommand(api, {
    name: "cancel",
    summary: "Cancel a run",
    description: "Ends it for good; work in flight is aborted. A run that has ended stays as it is.",
    scope: "decide",
    body: z.strictObject({ reason }),
    act: async (run, body) => void (await run.cancel(body.reason === undefined ? {} : { reason: body.reason })),
  });
  addRunCommand(api, {
    name: "pause",
    summary: "Pause a run",
    description:
      "Nothing of it begins until it is resumed; what is being executed may end. Its deadline stays where it is. A paused run stays as it is.",
    scope: "decide",
    body: z.strictObject({ reason }),
    act: async (run, body) => void (await run.pause(body.reason === undefined ? {} : { reason: body.reason })),
  });
  addRunCommand(api, {
    name: "resume",
    summary: "Let a paused run go on",
    description: "From where it was. A run that is not paused stays as it is.",
    scope: "decide",
    body: z.strictObject({}),
    act: async (run) => void (await run.resume()),
  });
  addRunCommand(api, {
    name: "retry",
    summary: "Go on with a failed run",
    description:
      "From where it failed. New limits may also be wider. With an `Idempotency-Key` it can be sent again, after a lost reply say, and is no second retry.",
    scope: "decide",
    keyed: true,
    body: z.strictObject({ limits: limitsSchema.optional() }),
    act: (run, { limits }, key) => run.retry({ ...(limits ? { limits } : {}), ...withId("retryId", key) }),
  });
  addRunCommand(api, {
    name: "input",
    summary: "Send input to a run",
    description:
      "It enters before the next model call, and gives an answered turn another one. With an `Idempotency-Key` (or an `inputId`) it can be sent again and enters once.",
    scope: "start",
    keyed: true,
    body: z.strictObject({
      input: inputMessageSchema.describe("Text, or one message"),
      inputId: z.string().min(1).max(200).optional().describe("Default: the `Idempotency-Key`"),
    }),
    required: true,
    act: (run, { input, inputId }, key) => run.send(input, withId("inputId", inputId ?? key)),
  });
}

function addCallCommands(api: Api): void {
  addCallCommand(api, {
    name: "approve",
    summary: "Let a call be executed",
    description: "Bound to `argumentsHash`, if it is given: a call of anything else is refused.",
    body: z.strictObject({ argumentsHash: z.string().min(1).max(100).optional() }),
    act: (run, callId, { argumentsHash }, key) =>
      run.approve(callId, { ...(argumentsHash === undefined ? {} : { argumentsHash }), ...withId("decisionId", key) }),
  });
  addCallCommand(api, {
    name: "deny",
    summary: "Settle a call without executing it",
    description: "The model reads the reason.",
    body: z.strictObject({ reason }),
    act: (run, callId, body, key) =>
      run.deny(callId, { ...(body.reason === undefined ? {} : { reason: body.reason }), ...withId("decisionId", key) }),
  });
  addCallCommand(api, {
    name: "answer",
    summary: "Give the result of a call that waits for one from outside",
    description: "A person's answer to a question, or what a tool of the run's caller brought.",
    body: z.strictObject({
      value: z
        .unknown()
        .refine((value) => value !== undefined, "is missing")
        .describe("Text, content parts, or any JSON value"),
    }),
    required: true,
    act: (run, callId, { value }, key) => run.answer(callId, value, withId("decisionId", key)),
  });
}

const inputMessageSchema: z.ZodType<string | InputMessage> = z.union([
  z.string().min(1),
  z.looseObject({ role: z.string() }).transform((message, context): InputMessage => {
    const parsed = inputSchema.safeParse([message]);
    const [only] = parsed.success && typeof parsed.data !== "string" ? parsed.data : [];
    if (only) return only;
    for (const { path, message: text } of parsed.error?.issues ?? []) {
      context.addIssue({ code: "custom", path: path.slice(1), message: text });
    }
    return z.NEVER;
  }),
]);

const noHeaders: typeof idempotencyHeaders = z.object({});

function withId<Name extends string>(name: Name, id: string | undefined): { [N in Name]?: string } {
  return (id === undefined ? {} : { [name]: id }) as { [N in Name]?: string };
}

type Command<Body extends z.ZodType> = {
  name: string;
  summary: string;
  description: string;
  body: Body;
  /** Default: there need be no body. */
  required?: boolean;
};

type RunCommand<Body extends z.ZodType> = Command<Body> & {
  scope: Scope;
  /** Takes an `Idempotency-Key`. Default false: done twice it is done once anyway. */
  keyed?: boolean;
  act: (run: RunHandle, body: z.output<Body>, key: string | undefined) => Promise<void>;
};

function addRunCommand<Body extends z.ZodType>(api: Api, command: RunCommand<Body>): void {
  const { name, summary, description, scope, body, required = false, keyed = false, act } = command;
  addEndpoint(
    api,
    {
      method: "post",
      path: `/runs/{runId}/${name}`,
      tag: "Runs",
      summary,
      description,
      scope,
      params: runIdParams,
      headers: keyed ? idempotencyHeaders : noHeaders,
      body,
      bodyRequired: required,
      answers: { 200: { description: "The run afterwards", schema: runSchema } },
      problems: [404, 409],
    },
    async (context, { params, headers, body: given }) => {
      const run = context.var.runs.get(params.runId);
      await act(run, given as z.output<Body>, headers["idempotency-key"]);
      return answerRun(context, run);
    },
  );
}

type CallCommand<Body extends z.ZodType> = Command<Body> & {
  act: (run: RunHandle, callId: string, body: z.output<Body>, key: string | undefined) => Promise<void>;
};

function addCallCommand<Body extends z.ZodType>(api: Api, command: CallCommand<Body>): void {
  const { name, summary, description, body, required = false, act } = command;
  addEndpoint(
    api,
    {
      method: "post",
      path: `/runs/{runId}/calls/{callId}/${name}`,
      tag: "Calls",
      summary,
      description: `${description} The same decision sent again is no second one.`,
      scope: "decide",
      params: callParams,
      headers: idempotencyHeaders,
      body,
      bodyRequired: required,
      answers: { 200: { description: "The run afterwards", schema: runSchema } },
      problems: [404, 409],
    },
    async (context, { params, headers, body: given }) => {
      const run = context.var.runs.get(params.runId);
      await act(run, params.callId, given as z.output<Body>, headers["idempotency-key"]);
      return answerRun(context, run);
    },
  );
}

async function answerRun(context: HttpContext, run: RunHandle): Promise<Response> {
  return context.json(await run.status());
}
