import type { BreakerPolicy, FleetLimits } from "../core/agent.ts";
import { breakerVerdict, type CallOutcome } from "../core/breaker.ts";
import { type OperatorLimits, toRateTerms } from "../core/fleet-limits.ts";
import { holdOf, type Step } from "../core/owed.ts";
import type { Run } from "../core/run.ts";
import type {
  AgentCode,
  EnterRequest,
  EnterResult,
  FleetGates,
  GateState,
  StepOutcome,
  ToolOutcome,
} from "../ports.ts";
import type { EngineDeps } from "./deps.ts";
import { type GateLine, holderOf, stepOf } from "./gate-line.ts";
import { createGateStates, type GateStates, offUntil } from "./gate-states.ts";
import { offText, pausedText, waitText } from "./gate-text.ts";
import { park } from "./hold.ts";
import { placeOfModel, placeOfTool, toolKey } from "./known-gates.ts";
import {
  type Admission,
  afterAbort,
  afterReport,
  endDelivery,
  type Gatekeeper,
  type Pass,
  type StepContext,
} from "./step.ts";

/** How long a place inside outlives its worker. It is renewed three times in that. */
const leaseMs = 10_000;
/** A tool that is tried again has its own timeout and this to report back before another call may try. */
const probeGraceMs = 5_000;
/** Runs that a pause held come back spread over a part of it, at most this: together they would bring the next one. */
const longestSpreadMs = 5_000;

type Deps = EngineDeps & { gates: FleetGates; line: GateLine; limits?: OperatorLimits | undefined };
type All = Deps & { states: GateStates };

/** What a step is about to call. */
type Target = {
  key: string;
  /** For people. */
  what: string;
  limits: FleetLimits;
  tool?: { name: string; breaker: BreakerPolicy | undefined; fallback: string | undefined; timeoutMs: number };
};

export function createGatekeeper(given: Deps): Gatekeeper {
  const deps: All = { ...given, states: createGateStates(given) };
  return {
    async admit(run, context) {
      const agent = deps.agents.get(run.agent);
      const target = agent && targetOf(deps, agent, run, context.step);
      if (!target) return { run, pass: undefined };
      const state = deps.states.fresh(target.key) ?? (await deps.states.get(target.key));
      if (isFree(target, state) && !holdOf(run, context.step)) {
        return { run, pass: makePass(deps, target, nameOf(deps, run, context)) };
      }
      const refused = await refuse(deps, run, target, { context, state });
      return refused ?? (await enter(deps, run, target, { context, state }));
    },
  };
}

/** Nothing limits its calls, and nothing is known that would stop one: as with most calls, whose way is short. */
function isFree({ limits }: Target, { pausedUntil, breaker }: GateState): boolean {
  return !limits.rate && limits.concurrency === undefined && pausedUntil === undefined && breaker === undefined;
}

type Who = { holder: string; token: string };

/** How one delivery of a step is known at a gate. */
function nameOf({ ids }: Deps, run: Run, { step }: StepContext): Who {
  return { holder: holderOf(run, step), token: ids.token() };
}

function targetOf({ limits }: Deps, agent: AgentCode, run: Run, step: Step): Target | undefined {
  if (step.kind === "model") {
    const gate = run.model?.task === "summary" ? agent.summariser.gate() : agent.modelGate();
    return { what: `the model "${gate.model}"`, ...placeOfModel(gate, limits) };
  }
  const call = run.calls.find(({ callId }) => callId === step.callId);
  const gate = call?.state === "ready" ? agent.tools.gate(call.tool) : undefined;
  if (!call || !gate) return undefined;
  const { tool: name } = call;
  const { breaker, fallback, timeoutMs } = gate;
  return {
    what: `the tool "${name}"`,
    ...placeOfTool(name, gate, limits),
    tool: { name, breaker, fallback, timeoutMs },
  };
}

type Found = { context: StepContext; state: GateState };

/** The step's end if nobody may call its target now, as far as this process knows. */
async function refuse(deps: All, run: Run, target: Target, { context, state }: Found): Promise<Admission | undefined> {
  const at = deps.clock.now();
  const { pausedUntil = 0 } = state;
  if (pausedUntil > at) {
    const spreadMs = Math.min((pausedUntil - at) / 4, longestSpreadMs) * deps.ids.random();
    const hold = { reason: "provider_paused" as const, detail: pausedText(target.what, pausedUntil) };
    return { outcome: (await park(deps, run, context, { hold, until: Math.ceil(pausedUntil + spreadMs) })).outcome };
  }
  const until = target.tool?.breaker ? offUntil(state, at) : undefined;
  return until === undefined ? undefined : { outcome: await settleOff(deps, run, target, { context, state, until }) };
}

/** Tells the model what is off; the call counts as executed by nobody, and nothing is charged for it. */
async function settleOff(
  deps: All,
  run: Run,
  target: Target,
  { context, state, until }: Found & { until: number },
): Promise<StepOutcome> {
  const { name = "", fallback } = target.tool ?? {};
  const at = deps.clock.now();
  const offered = deps.agents.get(run.agent)?.definition.tools.some((tool) => tool.name === fallback);
  const isOff =
    fallback !== undefined && offered && offUntil(await deps.states.get(toolKey(fallback)), at) !== undefined;
  const failures = state.breaker?.failures ?? 0;
  const content = offText({ tool: name, failures, until, fallback: offered && !isOff ? fallback : undefined }, at);
  const event = { type: "tool_finished" as const, step: context.step, content, outcome: "failed" as const };
  const result = await deps.advance(run.runId, event, { head: run, pipeline: true });
  const gate = holdOf(run, context.step)?.gate;
  if (gate !== undefined) await deps.line.giveUp(gate, holderOf(run, context.step));
  return afterReport(deps, result, context);
}

async function enter(deps: All, run: Run, target: Target, found: Found): Promise<Admission> {
  const { limits, key } = target;
  const { rate, concurrency } = limits;
  const { context } = found;
  const who = nameOf(deps, run, context);
  const pass = makePass(deps, target, who);
  if (!rate && concurrency === undefined) return begin(deps, run, target, { ...found, who, pass });
  const terms = rate && toRateTerms(rate);
  // Of all who wait for one rate about one is in hand at any time, and only then.
  const headStartMs = terms ? Math.min(deps.gates.headStartMs, terms.intervalMs) : 0;
  const request = { ...who, leaseMs, gates: [{ key, concurrency, ...(terms ? { rate: terms } : {}) }] };
  const result = await enterInTime(deps, request, { headStartMs, signal: context.active.signal });
  if (context.active.aborted()) {
    if (result.entered) await deps.line.leave(key, who);
    return { outcome: await afterAbort(deps, run, context) };
  }
  if (!result.entered) {
    const until = result.reason === "rate_limit" ? Math.ceil(result.until - headStartMs) : result.until;
    return { outcome: await wait(deps, run, target, { context, result: { ...result, until }, holder: who.holder }) };
  }
  pass.hold();
  return begin(deps, run, target, { ...found, who, pass });
}

/** How often a step that is nearly due tries before it is parked again. */
const triesInTime = 3;

/** Enters, or waits here for what is left of a head start and enters then. */
async function enterInTime(
  { gates, line, clock }: All,
  request: EnterRequest,
  { headStartMs, signal }: { headStartMs: number; signal: AbortSignal },
): Promise<EnterResult> {
  for (let tries = 1; ; tries += 1) {
    const result = await gates.enter(request);
    await line.wake(result.called);
    if (result.entered || result.reason !== "rate_limit" || tries === triesInTime) return result;
    const leftMs = result.until - clock.now();
    if (leftMs > headStartMs || signal.aborted) return result;
    await clock.sleep(leftMs, signal);
  }
}

type Refused = Extract<EnterResult, { entered: false }>;

async function wait(
  deps: All,
  run: Run,
  { key, what, limits }: Target,
  { context, result, holder }: { context: StepContext; result: Refused; holder: string },
): Promise<StepOutcome> {
  const { reason, until } = result;
  const hold = { reason, detail: waitText(what, reason, limits), gate: key };
  const parked = await park(deps, run, context, { hold, until });
  if (!parked.run) {
    await deps.line.giveUp(key, holder);
    return parked.outcome;
  }
  // Whoever called it before it was parked found nothing to wake.
  const step = stepOf(parked.run, holder);
  if (reason === "concurrency_limit" && step && (await deps.gates.isCalled(key, holder)))
    await deps.queue.promote(step);
  return parked.outcome;
}

type Entering = Found & { who: Who; pass: HeldPass };

/** Past all limits: makes the call the probe of a tool that was off, and says in the record that the wait is over. */
async function begin(deps: All, run: Run, target: Target, entering: Entering): Promise<Admission> {
  const { context, state, who, pass } = entering;
  try {
    const { tool } = target;
    if (tool?.breaker && breakerVerdict(state.breaker, deps.clock.now()).type === "half_open") {
      const probeMs = tool.timeoutMs + probeGraceMs;
      if (await deps.states.claim(target.key, who.token, probeMs)) pass.probe();
      else {
        const now = await deps.states.get(target.key);
        const until = offUntil(now, deps.clock.now());
        if (until !== undefined) {
          const outcome = await settleOff(deps, run, target, { context, state: now, until });
          await pass.end();
          return { outcome };
        }
      }
    }
    if (!holdOf(run, context.step)) return { run, pass };
    const admitted = await deps.advance(run.runId, { type: "step_admitted", step: context.step }, { head: run });
    if (admitted.change) return { run: admitted.change.run, pass };
    await pass.end();
    return { outcome: await endDelivery(deps, admitted.run, context) };
  } catch (error) {
    await pass.end();
    throw error;
  }
}

/** `hold`: a place inside is renewed from now on, and given back at the end. `probe`: its call is the one that tells. */
type HeldPass = Pass & { hold(): void; probe(): void };

function makePass({ gates, states, line }: All, target: Target, who: Who): HeldPass {
  const { key, tool } = target;
  const policy = tool?.breaker;
  let timer: NodeJS.Timeout | undefined;
  let isProbe = false;
  const told: Promise<void>[] = [];

  function report(outcome: CallOutcome): void {
    if (!policy) return;
    told.push(states.report(key, { outcome, policy, ...(isProbe ? { probe: who.token } : {}) }));
    isProbe = false;
  }

  /** Its place is free as soon as the call is over; what comes of it is still to be committed. */
  function leave(): void {
    if (timer) told.push(line.leave(key, who));
    clearInterval(timer);
    timer = undefined;
  }

  return {
    hold() {
      if (target.limits.concurrency === undefined) return;
      // A renewal that fails costs the place, not the call.
      timer = setInterval(() => void gates.renew(key, who, leaseMs).catch(() => {}), leaseMs / 3).unref();
    },
    probe() {
      isProbe = true;
    },
    toolEnded(outcome, aborted) {
      report(aborted || (outcome.type === "retry" && outcome.notBegun) ? "void" : outcomeOf(outcome));
      leave();
    },
    modelEnded(outcome) {
      if (outcome.type !== "failure" || outcome.failure.class !== "transient") return;
      const { retryAfterMs = 0 } = outcome.failure;
      if (retryAfterMs > 0) told.push(states.pause(key, retryAfterMs));
    },
    end() {
      // A probe that never got to its call leaves the trying to another.
      if (isProbe) report("void");
      leave();
      return told.length > 0 ? Promise.all(told) : undefined;
    },
  };
}

/** Whether the tool failed, as its breaker counts: not for what was wrong with the call, nor for what we stopped. */
function outcomeOf(outcome: ToolOutcome): CallOutcome {
  if (outcome.type === "ok") return "ok";
  if (outcome.type === "child") return "void";
  if (outcome.type === "failed") return outcome.trouble ? "failed" : "void";
  if (outcome.type === "unknown") return outcome.code === "aborted" ? "void" : "failed";
  return "failed";
}
