import type { AgentDefinition } from "../core/agent.ts";
import type { Redactor } from "../core/redact.ts";
import type { Run, Usage } from "../core/run.ts";
import type { StepSpan } from "../ports.ts";

/**
 * What a step's span tells apart from content, as small plain data that can be handed to another thread: a run, a
 * definition and an outcome are mostly other things. A `StepSpan` is one of these too.
 */
export type StepFacts = Omit<StepSpan, "run" | "kind"> & { run: RunFacts } & StepKindFacts;

export type RunFacts = Pick<Run, "runId" | "agent" | "session" | "dryRun" | "trace">;
export type ModelFacts = Pick<AgentDefinition, "model" | "provider" | "request">;
export type OutcomeFacts = {
  type: "reply" | "failure";
  usage: Usage;
  dropped: string[];
  finishReason?: string | undefined;
  failure?: { code: string } | undefined;
  model?: string | undefined;
  responseId?: string | undefined;
  timeToFirstChunkMs?: number | undefined;
};

type StepKindFacts =
  | {
      kind: "model";
      definition: ModelFacts;
      server?: { address: string; port: number } | undefined;
      outcome: OutcomeFacts;
    }
  | {
      kind: "tool";
      call: { id: string; name: string; callId: string };
      effect: string;
      description?: string | undefined;
    }
  | { kind: "verify" };

/** Makes the facts of a step, with every text of theirs redacted by `clean`; what is the same in many is made once. */
export function createFactsMaker(redactor: Redactor, clean: (text: string) => string): (span: StepSpan) => StepFacts {
  const ofModel = remember((definition: AgentDefinition): ModelFacts => {
    const { model, provider, request } = definition;
    return { model: clean(model), provider: clean(provider), request: redactor.value(request) };
  });
  const maybe = (text: string | undefined): string | undefined => (text === undefined ? undefined : clean(text));
  const outcomeOf = (outcome: (StepSpan & { kind: "model" })["outcome"]): OutcomeFacts => ({
    type: outcome.type,
    usage: outcome.usage,
    dropped: outcome.dropped,
    finishReason: outcome.type === "reply" ? clean(outcome.finishReason) : undefined,
    failure: outcome.type === "failure" ? { code: clean(outcome.failure.code) } : undefined,
    model: maybe(outcome.model),
    responseId: maybe(outcome.responseId),
    timeToFirstChunkMs: outcome.timeToFirstChunkMs,
  });
  return (span) => {
    const { run, turn, attempt, owedAt, startedAt, endedAt, queueWaitMs, loadMs, performMs, commitMs } = span;
    const base = {
      ...{ turn, attempt, owedAt, startedAt, endedAt, queueWaitMs, loadMs, performMs, commitMs },
      run: {
        runId: clean(run.runId),
        agent: clean(run.agent),
        session: maybe(run.session),
        dryRun: run.dryRun,
        trace: run.trace,
      },
      errorType: maybe(span.errorType),
    };
    if (span.kind === "verify") return { ...base, kind: "verify" };
    if (span.kind === "tool") {
      const { call, effect, description } = span;
      const { id, name, callId } = call;
      return {
        ...base,
        ...{
          kind: "tool",
          effect,
          description: maybe(description),
          call: { id: clean(id), name: clean(name), callId },
        },
      };
    }
    const { definition, server, outcome } = span;
    return {
      ...base,
      kind: "model",
      definition: ofModel(definition),
      server: server && { address: clean(server.address), port: server.port },
      outcome: outcomeOf(outcome),
    };
  };
}

/** The same object gives the same value: made once. */
export function remember<Key extends object, Value>(make: (key: Key) => Value): (key: Key) => Value {
  const made = new WeakMap<Key, Value>();
  return (key) => {
    const found = made.get(key);
    if (found !== undefined) return found;
    const value = make(key);
    made.set(key, value);
    return value;
  };
}
