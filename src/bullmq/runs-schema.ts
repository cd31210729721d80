import { z } from "zod";
import { defaultPayloadLimitBytes } from "../core/defaults.ts";
import { startPayloadSchema } from "../core/new-run.ts";

const fields: Record<string, string> = {
  agent: "Name of the agent to run, as its workers know it.",
  input:
    "What the run is about: text, or messages that end with what is asked. Calls of earlier turns stand in the " +
    "assistant's messages, each answered by a tool message right after, in call order.",
  session: "Id of a session: its runs share a transcript and take turns, in order of start. Formed like a run id.",
  whenBusy:
    "While a run of the session is active: wait for its end (`queue`, the default), or enter it between its turns, if it " +
    "is one of the same agent (`inject`). Needs `session`.",
  metadata: "Values of your own, kept with the run and shown to its tools; the model does not see them.",
  limits: "Bounds of this run. They tighten those of the agent, never widen them.",
  dryRun: "True: tools that only read are executed, what all others would do is described to the model instead.",
  tenant: "Whose run it is: keys of a tenant see its own runs only.",
  tools:
    "Tools of the caller, offered to the model after the agent's own. A call of one waits until its result is given from " +
    "outside; no worker executes it.",
  by: "Who starts it, for the run's audit trail. Default: unknown.",
  traceparent: "W3C trace context of the request that caused the run; the run's trace hangs under it.",
};

/** The contract of the `runs` queue as JSON Schema 2020-12: the data of a job named `start`. */
export function makeRunsSchema(): Record<string, unknown> {
  const schema: Record<string, unknown> = z.toJSONSchema(startPayloadSchema, { io: "input" });
  const { $schema, properties, ...rest } = schema;
  return {
    $schema,
    $id: "urn:drover:runs:start:1",
    title: "Start of a Drover run",
    description:
      "Data of a BullMQ job named `start` on the queue `runs` (prefix `{drover}:q` unless configured). The job id is the " +
      "run id: 1 to 128 letters, digits, '-', '_' or '.', with a letter among them. The data is at most " +
      `${defaultPayloadLimitBytes} bytes of JSON in UTF-8 unless configured. A job that does not fit leaves a record with ` +
      "status `rejected` and the reason, and its id stays free.",
    properties: describe(properties as Record<string, object>),
    ...rest,
  };
}

function describe(properties: Record<string, object>): Record<string, object> {
  return Object.fromEntries(
    Object.entries(properties).map(([name, schema]) => [name, { description: fields[name], ...schema }]),
  );
}
