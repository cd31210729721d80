import { deadlineAtBegin } from "../core/limits.ts";
import type { Run } from "../core/run.ts";
import type { AgentCode, ModelOutcome, ModelRequest, StepSpan } from "../ports.ts";
import { createLiveText } from "./live-text.ts";
import { abortAtDeadline, type RunStepDeps, type StepContext, spanTimes } from "./step.ts";

/** What is asked of a model in one step. */
export type Asked = Pick<ModelRequest, "task" | "instructions" | "messages" | "tools" | "request" | "output">;

type ModelSpan = StepSpan & { kind: "model" };

/** One model call as it went. `execution` names it among the deliveries of its step. */
export type ModelCall = {
  execution: string;
  outcome: ModelOutcome;
  asked: Asked;
  calledAt: number;
  answeredAt: number;
};

export type CallOptions = {
  model: AgentCode["model"];
  asked: Asked;
  /** Whether its text is shown as it arrives. */
  live: boolean;
  /** The agent's own deadline, for a run that has not begun. */
  deadlineMs: number | undefined;
};

/** Calls a model within the run's deadline, under a span of its own. */
export async function callModel(
  deps: RunStepDeps,
  run: Run,
  context: StepContext,
  options: CallOptions,
): Promise<ModelCall> {
  // Executions of a step order by when they began: a reader of live text tells a frozen worker's from its heir's.
  const execution = `${Math.floor(deps.clock.now()).toString(36).padStart(9, "0")}${deps.ids.token()}`;
  const calledAt = deps.clock.now();
  // A run that has not begun yet gets its deadline from a commit that may still be on its way.
  const deadline = run.startedAt === undefined ? deadlineAtBegin(run, options.deadlineMs) : run;
  const stopTimer = abortAtDeadline(deps, deadline, context.active);
  try {
    const outcome = await send(deps, run, context, { ...options, execution });
    context.pass?.modelEnded(outcome);
    return { execution, outcome, asked: options.asked, calledAt, answeredAt: deps.clock.now() };
  } finally {
    stopTimer();
  }
}

async function send(
  deps: RunStepDeps,
  run: Run,
  { active, step }: StepContext,
  { model, asked, live, execution }: CallOptions & { execution: string },
): Promise<ModelOutcome> {
  const turn = run.turns + 1;
  const attempt = run.model?.attempt ?? 1;
  const { store, logger, redaction } = deps;
  const text = createLiveText({ store, logger, redaction, runId: run.runId, place: { turn, attempt, execution } });
  try {
    return await deps.telemetry.withStep(run, { kind: "model", turn, attempt, owedAt: step.owedAt }, () =>
      model.call({
        runId: run.runId,
        turn,
        attempt,
        ...asked,
        signal: active.signal,
        onText: live ? text.push : () => {},
      }),
    );
  } finally {
    await text.flush();
  }
}

/** Whether the call was ended by this process: cancelled, handed back, or out of time. */
export function wasAborted({ outcome }: ModelCall, { active }: StepContext): boolean {
  return outcome.type === "failure" && outcome.failure.class === "aborted" && active.aborted() !== undefined;
}

/**
 * Tokens already spent are counted, whoever goes on with the run.
 *
 * @param agent whose metrics count them; undefined where the step is recorded, which does.
 */
export async function reportUsage(
  deps: RunStepDeps,
  runId: string,
  { execution, outcome, asked }: ModelCall,
  agent?: AgentCode,
): Promise<void> {
  const { usage } = outcome;
  if (usage.inputTokens + usage.outputTokens === 0) return;
  const { change } = await deps.advance(runId, { type: "usage_reported", execution, usage });
  if (change && agent) deps.telemetry.recordUsage(change.run, usage, calledBy(agent, asked).definition);
}

const entriesAtOnce = 100;

/**
 * The same for a call whose outcome was refused: the run had gone on. Nothing is counted if it had gone on with this very
 * outcome, whose commit was made and never answered.
 *
 * @param run as it was when the call was made
 */
export async function reportRefused(deps: RunStepDeps, run: Run, call: ModelCall, agent: AgentCode): Promise<void> {
  for (let after: number | undefined = run.eventSeq; after !== undefined; ) {
    const entries = await deps.store.readFeed(run.runId, after, entriesAtOnce);
    if (entries.some((entry) => "usage" in entry && "execution" in entry && entry.execution === call.execution)) return;
    after = entries.length < entriesAtOnce ? undefined : entries.at(-1)?.seq;
  }
  await reportUsage(deps, run.runId, call, agent);
}

/**
 * What a span tells of a call whose outcome was committed.
 * - `run`: as it is now; `before`: as it was when the call was made;
 * - `errorType`: why it was a failed attempt.
 */
export type RecordedModel = {
  run: Run;
  before: Run;
  agent: AgentCode;
  context: StepContext;
  errorType: string | undefined;
};

export function recordModel(deps: RunStepDeps, call: ModelCall, recorded: RecordedModel): void {
  const { run, before, agent, context, errorType } = recorded;
  const { instructions, messages } = call.asked;
  deps.telemetry.recordStep({
    kind: "model",
    owedAt: context.step.owedAt,
    run,
    turn: before.turns + 1,
    attempt: before.model?.attempt ?? 1,
    execution: call.execution,
    ...calledBy(agent, call.asked),
    outcome: call.outcome,
    request: { messages, instructions },
    ...(errorType === undefined ? {} : { errorType }),
    ...spanTimes(context, { ...call, endedAt: deps.clock.now() }),
  });
}

/** The model that was asked, under its agent's name. */
function calledBy(
  { definition, server, summariser }: AgentCode,
  { task }: Asked,
): Pick<ModelSpan, "definition" | "server"> {
  if (task !== "summary") return { definition, server };
  return { definition: { ...definition, ...summariser.named }, server: summariser.server };
}
