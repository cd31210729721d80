import { canonical } from "../core/canonical.ts";
import type { RunParent } from "../core/child.ts";
import { DroverError, toError } from "../core/errors.ts";
import type { FeedEntry } from "../core/event.ts";
import { toInputMessages } from "../core/message.ts";
import { makeRun, type StartPayload } from "../core/new-run.ts";
import { redactMessage } from "../core/redact-event.ts";
import type { Run } from "../core/run.ts";
import type { EngineDeps } from "./deps.ts";
import { hashText } from "./hash.ts";
import { queueOwed } from "./queue-owed.ts";
import { lookAtLine } from "./session.ts";

type Deps = Pick<EngineDeps, "store" | "queue" | "clock" | "ids" | "telemetry" | "logger" | "redaction" | "advance">;

type CreateOptions = {
  priority?: number | undefined;
  delayMs?: number | undefined;
  /** Whose child it is, if it is one. */
  parent?: RunParent | undefined;
};

/**
 * Writes a run's record, unless its id is taken by the same input, and queues what it owes.
 *
 * @throws DroverError "conflict" if a run of another input has its id.
 */
export async function createRun(
  deps: Deps,
  runId: string,
  payload: StartPayload,
  options: CreateOptions = {},
): Promise<Run> {
  const { store, clock, ids, telemetry, logger } = deps;
  const { redactor, stored } = deps.redaction;
  const input = toInputMessages(payload.input);
  const messages = stored ? input.map((message) => redactMessage(message, redactor)) : input;
  const run = makeRun({
    ...payload,
    runId,
    messages,
    inputHash: hashInput(payload),
    priority: options.priority,
    delayMs: options.delayMs,
    parent: options.parent,
    trace: telemetry.startTrace(runId, payload.traceparent),
    at: clock.now(),
    token: ids.token(),
  });
  const entry: FeedEntry = {
    type: "run_created",
    seq: 1,
    at: run.createdAt,
    turn: 0,
    messages: [0, run.messageCount],
    by: payload.by ?? "unknown",
    ...(payload.dryRun ? { dryRun: true } : {}),
  };
  const result = await store.create(run, run.messageCount === 0 ? [] : messages, [entry]);
  // A try whose reply was lost finds its own record.
  const existing = result.created || result.run.token === run.token ? undefined : result.run;
  if (existing && !isSameStart(existing, run)) {
    throw new DroverError(
      "conflict",
      `Run "${runId}" exists already with another agent or input. Choose another runId, or start it with the same input.`,
    );
  }
  if (!existing) telemetry.recordStart(run);
  // Repeated for a run that exists: whoever wrote it may have ended before queueing its step.
  return await begin(deps, existing ?? run).catch((error: unknown) => {
    // The record is written, so the run is started: a sweeper queues its step.
    logger.warn({ runId, error: toError(error).message }, "the first step could not be queued yet");
    return existing ?? run;
  });
}

/** Queues what a run owes. Its place in its session's line it finds at once, without a step. */
async function begin(deps: Deps, run: Run): Promise<Run> {
  if (run.place?.state === "joined") return (await lookAtLine(deps, run, { sweepable: true })).run ?? run;
  await queueOwed(deps, run);
  return run;
}

/** Whether a start is one again that there was; two children with one input may be those of different parents. */
function isSameStart({ inputHash, parent }: Run, run: Run): boolean {
  return inputHash === run.inputHash && parent?.runId === run.parent?.runId && parent?.callId === run.parent?.callId;
}

/** What makes two starts the same: agent, input, session, tenant, tools and whether it is a dry run, whatever the order of keys. */
export function hashInput({ agent, input, session, tenant, dryRun, tools }: StartPayload): string {
  const rest = {
    ...(tenant === undefined ? {} : { tenant }),
    ...(dryRun ? { dryRun } : {}),
    ...(tools?.length ? { tools } : {}),
  };
  return hashText(canonical({ agent, input, session, ...rest }));
}
