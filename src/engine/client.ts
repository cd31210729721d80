import type { Limits, ToolSpec } from "../core/agent.ts";
import type { Change } from "../core/change.ts";
import type { Command } from "../core/command.ts";
import { DroverError, unknownRun } from "../core/errors.ts";
import type { FeedEntry } from "../core/event.ts";
import type { InputMessage } from "../core/message.ts";
import { problemOfNesting } from "../core/nesting.ts";
import { makeRejectedRun, type StartPayload, startPayloadSchema, startPlaceSchema } from "../core/new-run.ts";
import { type Redaction, redactEvent } from "../core/redact-event.ts";
import type { Run, RunStatus } from "../core/run.ts";
import type {
  AgentRegistry,
  Clock,
  Durable,
  Ids,
  Logger,
  Room,
  RunFilter,
  RunPage,
  RunStore,
  Signals,
  StepQueue,
  Telemetry,
} from "../ports.ts";
import type { Advance } from "./advance.ts";
import { refuseOversizeCommand, refuseOversizeStart, withinLimits } from "./byte-limits.ts";
import { nameProblem } from "./caller-tools.ts";
import { checkCommand } from "./command.ts";
import { createRun, hashInput } from "./create-run.ts";
import { type Deleted, deleteRun } from "./delete-run.ts";
import { inject } from "./inject.ts";
import { quietly } from "./quietly.ts";

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
  /** Default: there is always room. */
  room?: Room | undefined;
  redaction: Redaction;
  durable?: Durable | undefined;
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
  /**
   * Removes a run that has ended, or whose record is damaged so that it can neither go on nor be cancelled.
   * @throws DroverError "not_found", "not_allowed" while it goes on, still owes something, or its parent waits for its result
   */
  delete(runId: string): Promise<Deleted>;
  /**
   * Applies an event from outside the run's steps and announces it. False if it did not apply.
   * @throws DroverError "invalid" "too_large" "not_found"
   */
  command(runId: string, event: Command): Promise<{ run: Run; applied: boolean }>;
};

export function createClient(deps: ClientDeps): Client {
  const { store, signals, ids, logger } = deps;

  async function startOrInject(runId: string, payload: StartPayload, options: StartOptions): Promise<Run> {
    const { session, whenBusy } = payload;
    if (session !== undefined && whenBusy === "inject") {
      const taken = await inject({ store, command }, runId, hashInput(payload), { ...payload, session });
      if (taken) return taken;
    }
    refuseOversizeStart(deps.agents, payload);
    await refuseWithoutRoom(deps, runId, payload);
    const run = await createRun(deps, runId, payload, options);
    await deps.durable?.confirm(run);
    return run;
  }

  async function command(runId: string, event: Command): Promise<{ run: Run; applied: boolean }> {
    checkCommand(event, deps.payloadLimitBytes);
    await deps.clock.ready?.();
    const { run, change } = await applyCommand(deps, runId, event);
    if (change) {
      // It is committed: whoever works on the run finds out by its next commit.
      await quietly(logger, { runId }, "a change of a run could not be announced", () => signals.announce(runId));
    }
    // Also where nothing was changed: what had been done before may not be safe yet.
    await deps.durable?.confirm(run);
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
      await deps.clock.ready?.();
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

/** @throws DroverError "too_large" "not_found" */
async function applyCommand(
  deps: ClientDeps,
  runId: string,
  event: Command,
): Promise<{ run: Run; change: Change | null }> {
  const sized = await withinLimits(deps, runId, event);
  const { run, change } = await deps.advance(runId, sized, { sweepable: true });
  if (!run) throw unknownRun(runId);
  // What others have given it meanwhile may have taken the room, and what is redacted may be longer than what was.
  if (!change) refuseOversizeCommand(deps.agents, run, redactEvent(event, deps.redaction) as Command);
  return { run, change };
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

/**
 * A store that is nearly full takes no new runs. Children are not asked for here: their parents could not end without.
 *
 * @throws DroverError "queue_unavailable"
 */
async function refuseWithoutRoom({ store, room }: ClientDeps, runId: string, { input }: StartPayload): Promise<void> {
  if (!room) return;
  const refusal = await room.refusal(Buffer.byteLength(JSON.stringify(input)));
  if (refusal === undefined) return;
  // Who sends a start again is told of the run that is there.
  if (await store.load(runId)) return;
  throw new DroverError("queue_unavailable", `The run was not started: ${refusal}`);
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
