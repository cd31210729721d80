import type { Limits, ToolSpec } from "../core/agent.ts";
import { canonical } from "../core/canonical.ts";
import type { Command } from "../core/command.ts";
import { DroverError, toError, unknownRun } from "../core/errors.ts";
import type { FeedEntry } from "../core/event.ts";
import { type InputMessage, toInputMessages } from "../core/message.ts";
import { problemOfNesting } from "../core/nesting.ts";
import { makeRejectedRun, makeRun, type StartPayload, startPayloadSchema, startPlaceSchema } from "../core/new-run.ts";
import { owed } from "../core/owed.ts";
import { type Redaction, redactMessage } from "../core/redact-event.ts";
import { isEnded, type Run, type RunStatus } from "../core/run.ts";
import type {
  AgentRegistry,
  Clock,
  Ids,
  Logger,
  RunFilter,
  RunPage,
  RunStore,
  Signals,
  StepQueue,
  Telemetry,
} from "../ports.ts";
import { type Advance, isSameRun } from "./advance.ts";
import { nameProblem } from "./caller-tools.ts";
import { checkCommand } from "./command.ts";
import { hashText } from "./hash.ts";
import { inject } from "./inject.ts";
import { quietly } from "./quietly.ts";
import { lookAtLine } from "./session.ts";

export type ClientDeps = {
  store: RunStore;
  queue: StepQueue;
  signals: Signals;
  clock: Clock;
  ids: Ids;
  telemetry: Telemetry;
  logger: Logger;
  advance: Advance;
  /** Largest start payload, in bytes of its JSON; default 1 MiB. */
  payloadLimitBytes: number;
  redaction: Redaction;
  /** Those that this process knows. */
  agents: AgentRegistry;
};

export type StartOptions = {
  /** Default: a new one. Starting the same id again gives the same run. */
  runId?: string | undefined;
  /** Runs of one session share a transcript and take turns, in the order in which they were started. */
  session?: string | undefined;
  /**
   * While a run of the session is active: "queue" (default) waits for its end; "inject" gives it the input, to enter
   * between its turns, if it is one of the same agent: then that run is the one returned, and the other options are moot.
   */
  whenBusy?: "queue" | "inject" | undefined;
  metadata?: Record<string, unknown> | undefined;
  limits?: Limits | undefined;
  /** Lower goes first; 1 to 2,097,152. Default: by age. */
  priority?: number | undefined;
  /** The first step is owed only after this, in ms. */
  delayMs?: number | undefined;
  /** Reads are executed, all else is only described to the model; `result()` tells what would have been done. */
  dryRun?: boolean | undefined;
  /**
   * Tools of yours, offered to the model after the agent's own. A call of one waits until you give its result by
   * `answer`; `status()` lists it. Names: letters, digits, `-`, `_`, at most 64; at most 128 tools, none with the name of
   * one of the agent's: where that is only found out later, the run fails with `tool_name_taken`.
   */
  tools?: ToolSpec[] | undefined;
  /** Whose run it is: keys of a tenant see its own runs only. */
  tenant?: string | undefined;
  /** Who starts it, for the audit; default "unknown". */
  by?: string | undefined;
  /** W3C trace context of the request that causes the run; default: the active span. */
  traceparent?: string | undefined;
};

/** What applications, the CLI and HTTP do with runs. Every command is one event through `advance`. */
export type Client = {
  /** Writes the record, then queues its first step. @throws DroverError "invalid" "too_large" "conflict" */
  start(agent: string, input: string | InputMessage[], options?: StartOptions): Promise<Run>;
  /** Takes what a producer put on the `runs` queue. @throws DroverError "conflict" */
  accept(runId: string, payload: StartPayload, priority?: number): Promise<Run>;
  /** Keeps a record of input that could not become a run. False if a run holds its id. */
  reject(rejected: { runId: string; agent: string | undefined; reason: string }): Promise<boolean>;
  /** @throws DroverError "not_found" */
  load(runId: string): Promise<Run>;
  list(filter: RunFilter): Promise<RunPage>;
  /** How many runs there are of each status. */
  count(filter?: Pick<RunFilter, "tenant" | "agent">): Promise<Record<RunStatus, number>>;
  /** Removes a run that has ended. @throws DroverError "not_found", "not_allowed" while it goes on or still owes something */
  delete(runId: string): Promise<void>;
  /**
   * Applies an event from outside the run's steps and announces it. False if it did not apply.
   * @throws DroverError "invalid" "too_large" "not_found"
   */
  command(runId: string, event: Command): Promise<{ run: Run; applied: boolean }>;
};

export function createClient(deps: ClientDeps): Client {
  const { store, signals, ids, logger, advance } = deps;

  async function startOrInject(runId: string, payload: StartPayload, options: StartOptions): Promise<Run> {
    const { session, whenBusy } = payload;
    if (session !== undefined && whenBusy === "inject") {
      const taken = await inject({ store, command }, runId, hashInput(payload), { ...payload, session });
      if (taken) return taken;
    }
    return create(deps, runId, payload, options);
  }

  async function command(runId: string, event: Command): Promise<{ run: Run; applied: boolean }> {
    checkCommand(event, deps.payloadLimitBytes);
    const { run, change } = await advance(runId, event, { sweepable: true });
    if (!run) throw unknownRun(runId);
    if (change) {
      // It is committed: whoever works on the run finds out by its next commit.
      await quietly(logger, { runId }, "a change of a run could not be announced", () => signals.announce(runId));
    }
    return { run, applied: change !== null };
  }

  return {
    async start(agent, input, options = {}) {
      const { runId = ids.runId(), priority, delayMs, ...rest } = options;
      const payload = parsePayload({ agent, input, ...defined(rest) }, deps.payloadLimitBytes);
      const place = startPlaceSchema.safeParse({ runId, priority, delayMs });
      if (!place.success) throw invalid(place.error.issues);
      const problem = nameProblem(deps.agents.get(agent), payload.tools);
      if (problem) throw invalid([{ path: ["tools"], message: problem }]);
      return startOrInject(place.data.runId, payload, place.data);
    },

    accept: (runId, payload, priority) => startOrInject(runId, payload, { priority }),

    reject: (rejected) => reject(deps, rejected),

    async load(runId) {
      const run = await store.load(runId);
      if (!run) throw unknownRun(runId);
      return run;
    },

    list: (filter) => store.list(filter),
    count: (filter) => store.count(filter),
    delete: (runId) => deleteRun(deps, runId),

    command,
  };
}

async function reject(
  { store, clock, ids, telemetry, redaction }: ClientDeps,
  { runId, agent, reason: given }: Parameters<Client["reject"]>[0],
): Promise<boolean> {
  const reason = redaction.redactor.text(given);
  const trace = telemetry.startTrace(runId);
  const run = makeRejectedRun({ runId, agent: agent ?? "", reason, trace, at: clock.now(), token: ids.token() });
  const error = { code: "rejected", message: reason };
  const entry: FeedEntry = { type: "run_rejected", seq: 1, at: run.createdAt, turn: 0, error };
  const result = await store.create(run, [], [entry]);
  const kept = result.created || result.run.token === run.token;
  if (kept) telemetry.count({ what: "run_rejected" });
  return kept;
}

/** Writes a run's record, unless its id is taken by the same input, and queues what it owes. */
async function create(
  deps: ClientDeps,
  runId: string,
  payload: StartPayload,
  options: StartOptions = {},
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
  if (existing && existing.inputHash !== run.inputHash) {
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

async function deleteRun({ store, signals, logger }: ClientDeps, runId: string): Promise<void> {
  let meant: Run | undefined;
  for (;;) {
    const run = await store.load(runId);
    // It went meanwhile, and another may have its id: that one is not meant.
    if (meant && !(run && isSameRun(meant, run))) return;
    if (!run) throw unknownRun(runId);
    meant = run;
    if (!isEnded(run)) {
      throw new DroverError("not_allowed", `Run "${runId}" is ${run.status}; cancel it before it is deleted.`);
    }
    if (owed(run).length > 0) {
      throw new DroverError(
        "not_allowed",
        `Run "${runId}" has ended but still has others to tell; delete it in a moment.`,
      );
    }
    if (!(await store.remove(run))) continue;
    // Whoever remembers it forgets it, before another run takes its id.
    await quietly(logger, { runId }, "the deletion of a run could not be announced", () => signals.announce(runId));
    return;
  }
}

/** Queues what a run owes. Its place in its session's line it finds at once, without a step. */
async function begin(deps: ClientDeps, run: Run): Promise<Run> {
  if (run.place?.state === "joined") return (await lookAtLine(deps, run, { sweepable: true })).run ?? run;
  await deps.queue.add(owed(run));
  return run;
}

function defined<T extends object>(value: T): Partial<T> {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as Partial<T>;
}

function invalid(issues: readonly { path: PropertyKey[]; message: string }[]): DroverError {
  const problems = issues.map(({ path, message }) => `${path.join(".") || "input"}: ${message}`);
  return new DroverError("invalid", `The run was not started: ${problems.join("; ")}.`);
}

function parsePayload(value: unknown, limitBytes: number): StartPayload {
  const tooDeep = problemOfNesting(value);
  if (tooDeep) throw invalid([{ path: [], message: tooDeep }]);
  const parsed = startPayloadSchema.safeParse(value);
  if (!parsed.success) throw invalid(parsed.error.issues);
  const bytes = Buffer.byteLength(JSON.stringify(parsed.data));
  if (bytes > limitBytes) {
    throw new DroverError(
      "too_large",
      `The run was not started: its input is ${bytes} bytes, the limit is ${limitBytes}. Put large content where a tool can read it, or raise DROVER_PAYLOAD_LIMIT.`,
    );
  }
  return parsed.data;
}

/** What makes two starts the same: agent, input, session, tenant, tools and whether it is a dry run, whatever the order of keys. */
function hashInput({ agent, input, session, tenant, dryRun, tools }: StartPayload): string {
  const rest = {
    ...(tenant === undefined ? {} : { tenant }),
    ...(dryRun ? { dryRun } : {}),
    ...(tools?.length ? { tools } : {}),
  };
  return hashText(canonical({ agent, input, session, ...rest }));
}
