import type { AgentDefinition } from "../core/agent.ts";
import { DroverError, toError } from "../core/errors.ts";
import type { OperatorLimits } from "../core/fleet-limits.ts";
import type { StartPayload } from "../core/new-run.ts";
import { createRarely } from "../core/rarely.ts";
import { createRedactor } from "../core/redact.ts";
import type { Redaction } from "../core/redact-event.ts";
import type {
  AgentRegistry,
  Clock,
  Delivery,
  Durable,
  FleetGates,
  Ids,
  Logger,
  Room,
  RunStore,
  SchemaCheck,
  Signals,
  StepOutcome,
  StepQueue,
  Telemetry,
  TokenCounter,
} from "../ports.ts";
import { createActiveSteps } from "./active-steps.ts";
import { createAdvance } from "./advance.ts";
import { createAfterCommit } from "./after-commit.ts";
import { type Client, createClient } from "./client.ts";
import type { Elsewhere } from "./deps.ts";
import { createGateLine } from "./gate-line.ts";
import { createGatekeeper } from "./gatekeeper.ts";
import { hashText } from "./hash.ts";
import { createRecall } from "./recall.ts";
import { createRunHandle, type RunHandle } from "./run-handle.ts";
import { createRunStep } from "./run-step.ts";
import { wakeSessions } from "./session.ts";
import { createSessionHandle, type SessionHandle } from "./session-handle.ts";
import { done, type Isolate } from "./step.ts";

export type EngineOptions = {
  store: RunStore;
  queue: StepQueue;
  signals: Signals;
  clock: Clock;
  ids: Ids;
  agents: AgentRegistry;
  telemetry: Telemetry;
  logger: Logger;
  payloadLimitBytes: number;
  /** Default: there is always room for runs. */
  room?: Room | undefined;
  /** Default: what is committed is acknowledged. */
  durable?: Durable | undefined;
  gates: FleetGates;
  /** What operators add to the limits of tools and models. */
  limits?: OperatorLimits | undefined;
  isolate?: Isolate | undefined;
  /** Whether this process is such a child, for one step. */
  isAlone?: boolean | undefined;
  /** How many workers a step may lose before it runs alone; default 3. */
  isolateAfter?: number | undefined;
  /** Default: nobody else takes steps. */
  elsewhere?: Elsewhere | undefined;
  /** Default: the usual kinds of secrets, in what is shown and not in what is stored. */
  redaction?: Redaction | undefined;
  /** Checks answers from outside by what their questions ask for. */
  checkValue: SchemaCheck;
  /** Counts as a model does, for requests of agents that are not among `agents`. Default: nobody does. */
  tokens?: ((model: string) => Promise<TokenCounter>) | undefined;
};

/** A job of the `runs` queue as read: a run to create, or the reason why there is none. */
export type StartRequest =
  | { runId: string; payload: StartPayload }
  | { rejected: { runId: string; agent: string | undefined; reason: string } };

export type Engine = {
  client: Client;
  /** `read`: makes the output of a structured answer. */
  handle<Output = string>(runId: string, read?: (value: unknown) => Output): RunHandle<Output>;
  /** @throws DroverError "invalid" for an id that no session can have */
  session(id: string): SessionHandle;
  runStep(delivery: Delivery): Promise<StepOutcome>;
  /** Takes a job of the `runs` queue: creates its run, or keeps a rejected record with the reason (invariant 7). */
  takeStart(start: StartRequest, priority?: number): Promise<StepOutcome>;
  /** Tells the first run of every session in which runs wait, past those whose records are lost. */
  wakeSessions(): Promise<void>;
  /** Steps being executed in this process. */
  runningSteps(): number;
  /** Stops listening. */
  close(): void;
};

/** Wires the engine over its ports. The same for Redis and for memory. */
export function createEngine(options: EngineOptions): Engine {
  const recall = createRecall(options.store);
  const redaction = options.redaction ?? { redactor: createRedactor(), stored: false };
  const deps = { ...options, store: recall.store, redaction };
  const line = createGateLine(deps);
  const afterCommit = createAfterCommit({ ...deps, line });
  const advance = createAdvance({ ...deps, recent: (runId) => recall.get(runId)?.run, afterCommit });
  const client = createClient({ ...deps, advance });
  const active = createActiveSteps(deps);
  const gatekeeper = createGatekeeper({ ...deps, advance, line });
  const rarely = createRarely(() => options.clock.now());
  const stopForgetting = options.signals.onAnnounced(recall.forget);
  const tokens = async ({ name, model }: AgentDefinition): Promise<TokenCounter | undefined> => {
    const known = options.agents.get(name);
    return known?.definition.model === model ? known.tokens() : options.tokens?.(model);
  };
  const handle: Engine["handle"] = (runId, read) => createRunHandle({ ...deps, client, tokens }, runId, read);
  return {
    client,
    handle,
    session: (id) => createSessionHandle({ ...deps, client, handle }, id),
    runStep: createRunStep({ ...deps, advance, active, recall, gatekeeper, rarely }),
    takeStart: (start, priority) => takeStart(client, options.logger, start, priority),
    wakeSessions: () => wakeSessions({ ...deps, advance }),
    runningSteps: active.count,
    close: () => {
      active.close();
      stopForgetting();
    },
  };
}

async function takeStart(client: Client, logger: Logger, start: StartRequest, priority?: number): Promise<StepOutcome> {
  if ("rejected" in start) {
    const { runId, reason } = start.rejected;
    logger.warn({ runId, reason }, "a start was rejected");
    const kept = await client.reject(start.rejected);
    if (!kept) await client.reject({ ...start.rejected, runId: besideId(runId, reason) });
    return done;
  }
  const { runId, payload } = start;
  try {
    await client.accept(runId, payload, priority);
  } catch (thrown) {
    const error = toError(thrown);
    if (!(error instanceof DroverError) || !permanent.has(error.code)) throw error;
    logger.warn({ runId, reason: error.message }, "a start was rejected");
    const rejected = { runId, agent: payload.agent, reason: error.message };
    if (error.code !== "conflict" && (await client.reject(rejected))) return done;
    const other = besideId(runId, JSON.stringify(payload));
    await client.reject({ ...rejected, runId: other });
  }
  return done;
}

/** What will not be taken however often it is delivered. */
const permanent: ReadonlySet<string> = new Set(["conflict", "too_large"]);

/** The name of a rejected record whose id belongs to a run. */
function besideId(runId: string, what: string): string {
  return `${runId.slice(0, 100)}.rejected-${hashText(what).slice(0, 12)}`;
}
