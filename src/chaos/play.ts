import { setTimeout as sleep } from "node:timers/promises";
import { toError } from "../core/errors.ts";
import type { FeedEntry } from "../core/event.ts";
import type { Message } from "../core/message.ts";
import { isEnded, type Run } from "../core/run.ts";
import type { Agent } from "../define-agent.ts";
import type { Engine } from "../engine/engine.ts";
import { sweep } from "../engine/sweep.ts";
import type { RunStore, StepOutcome } from "../ports.ts";
import { createSilentLogger } from "../telemetry/logger.ts";
import { noteEffects } from "../testing/record-effect.ts";
import type { Tool } from "../tools/define-tool.ts";
import { chaosAgent } from "./chaos-agent.ts";
import { decide } from "./decider.ts";
import type { Execution } from "./execution.ts";
import { createFaultyPorts, type FaultyPorts, type Life, type PointFault, type PointFaultKind } from "./ports.ts";
import type { Scripts } from "./script.ts";
import { type MemoryWorld, makeMemoryWorld } from "./world.ts";

export type PlayOptions = {
  agent: Agent;
  runId: string;
  seed: number;
  scripts: Scripts;
  isReal: (tool: Tool) => boolean;
  schedule: readonly PointFault[];
  /** Spoils the store, for tests. */
  breakStore?: ((store: RunStore) => RunStore) | undefined;
};

/** One run as it went. */
export type Played = {
  run: Run | null;
  messages: Message[];
  feed: FeedEntry[];
  executions: Execution[];
  /** Port calls, as `port.method`. */
  calls: readonly string[];
  happened: readonly PointFaultKind[];
  redeliveries: number;
  /** What went wrong beside the run itself; undefined: nothing. */
  trouble?: string | undefined;
};

const mostDeliveries = 3_000;
const mostRounds = 20_000;
const quietTurns = 20;
const sweepAfterMs = 6_000;
/** Of real time; what is slower than that, beside a tool that is executed for real, hangs. */
const silenceMs = 5_000;

/** A step in the hands of a process. */
type Held = { life: Life; done: Promise<void>; settled: boolean };
type Current = { life: Life; engine: Engine };

/**
 * Plays one run from its start to its end in memory while the faults of the schedule happen. A process that dies or is
 * frozen is replaced by another, to which its steps are delivered again. Without a tool that has a will of its own, the
 * same options give the same run.
 */
export async function play(options: PlayOptions): Promise<Played> {
  const { runId } = options;
  const executions: Execution[] = [];
  const note = (execution: Execution): void => void executions.push(execution);
  const agent = chaosAgent(options.agent, { ...options, note, inOnePiece: true });
  const world = makeMemoryWorld(options.breakStore);
  const ports = createFaultyPorts(options.schedule);
  const stage = new Stage(world, ports, agent);
  stage.silenceMs += Math.max(0, ...options.agent.tools.filter(options.isReal).map(({ timeoutMs }) => timeoutMs));
  const release = noteEffects((key, what) => note({ type: "effect", key, what, pid: process.pid, at: Date.now() }));
  let trouble: string | undefined;
  try {
    trouble = await perform(stage, options);
  } catch (error) {
    trouble = toError(error).message;
  } finally {
    release();
    stage.close();
  }
  const { store } = world;
  const run = await store.load(runId);
  return {
    run,
    messages: run ? await store.readMessages(runId, 0, 10_000) : [],
    feed: await store.readFeed(runId, 0, 1_000),
    executions,
    calls: ports.calls,
    happened: ports.happened,
    redeliveries: stage.redeliveries,
    trouble,
  };
}

/** The processes of a play, one at a time, and the steps they hold. */
class Stage {
  readonly world: MemoryWorld;
  readonly #ports: FaultyPorts;
  readonly #agent: Agent;
  readonly #engines: Engine[] = [];
  #current: Current;
  #held: { step: Held; redeliver: () => void }[] = [];
  #asleep: { life: Life; held: Held[]; sinceDelivery: number }[] = [];
  deliveries = 0;
  redeliveries = 0;
  silenceMs: number = silenceMs;

  constructor(world: MemoryWorld, ports: FaultyPorts, agent: Agent) {
    this.world = world;
    this.#ports = ports;
    this.#agent = agent;
    this.#current = this.#begin();
  }

  #begin(): Current {
    const life = this.#ports.begin();
    const engine = this.world.process(life, [this.#agent]);
    this.#engines.push(engine);
    return { life, engine };
  }

  /** Puts another process in the place of one that died or is frozen; what that held is delivered again. */
  replaceIfStopped(): void {
    const { life } = this.#current;
    const state = life.state();
    if (state === "alive") return;
    const held = this.#held.filter(({ step }) => !step.settled);
    if (state === "paused") {
      this.#asleep.push({ life, held: held.map(({ step }) => step), sinceDelivery: this.deliveries });
    }
    this.#held = [];
    this.#current = this.#begin();
    for (const { redeliver } of held) redeliver();
  }

  /** Begins every step that is due. */
  takeDue(): boolean {
    const { queue } = this.world;
    let any = false;
    for (let taken = queue.take(); taken; taken = queue.take()) {
      const { delivery, end } = taken;
      const { engine, life } = this.#current;
      this.deliveries += 1;
      const step: Held = { life, done: Promise.resolve(), settled: false };
      step.done = engine.runStep(delivery).then(async (outcome: StepOutcome) => {
        await turn();
        // Whatever a dead process says is not heard.
        if (life.state() === "dead") return;
        step.settled = true;
        end(outcome);
      });
      const redeliver = (): void => {
        const there = queue.list().some(({ step: other, state }) => state === "active" && isSame(other, delivery.step));
        if (!there) return;
        this.redeliveries += 1;
        queue.redeliver(delivery.step);
      };
      this.#held.push({ step, redeliver });
      any = true;
    }
    return any;
  }

  /** Resolves when a step has ended or the process has stopped. False if no step is in hand. */
  async nextChange(): Promise<boolean> {
    this.#held = this.#held.filter(({ step }) => !step.settled);
    const woken = this.#woken();
    if (this.#held.length === 0 && woken.length === 0) return false;
    const timer = Promise.withResolvers<void>();
    const timeout = setTimeout(() => timer.reject(new Error("a step neither ends nor fails")), this.silenceMs);
    const over = new AbortController();
    const passing = this.#passTime(over.signal);
    try {
      const lives = [this.#current.life, ...woken.map(({ life }) => life)];
      await Promise.race([
        ...lives.map((life) => life.stopped()),
        timer.promise,
        ...[...this.#held.map(({ step }) => step), ...woken].map(({ done }) => done),
      ]);
    } finally {
      clearTimeout(timeout);
      over.abort();
      await passing;
    }
    return true;
  }

  /** Lets time pass for steps that wait for it, whenever nobody has done anything else for a while. */
  async #passTime(over: AbortSignal): Promise<void> {
    const { clock } = this.world;
    for (let quiet = 0; !over.aborted; quiet += 1) {
      const calls = this.#ports.calls.length;
      // A tool that is executed for real takes real time.
      await (quiet < quietTurns ? turn() : sleep(1));
      if (this.#ports.calls.length > calls) quiet = 0;
      const at = clock.nextAt();
      if (quiet < quietTurns || at === undefined || over.aborted) continue;
      clock.advance(at - clock.now());
      quiet = 0;
    }
  }

  /** Steps of processes that were frozen and go on. */
  #woken(): Held[] {
    return this.#asleep
      .filter(({ life }) => life.state() === "alive")
      .flatMap(({ held }) => held.filter((step) => !step.settled));
  }

  /** Wakes the frozen whose time has come, or all. True if one woke. */
  wake(all: boolean): boolean {
    const due = this.#asleep.filter(
      ({ life, sinceDelivery }) =>
        life.state() === "paused" && (all || this.deliveries - sinceDelivery >= life.forSteps),
    );
    for (const { life } of due) life.resume();
    return due.length > 0;
  }

  /** Gives a command, again if its process stops or Redis is away, until it is answered. */
  async command(give: (engine: Engine) => Promise<unknown>): Promise<void> {
    for (let tries = 0; tries < 100; tries += 1) {
      this.replaceIfStopped();
      const { engine, life } = this.#current;
      const answered = give(engine).then(
        () => "taken" as const,
        (error: unknown) => toError(error),
      );
      const result = await Promise.race([answered, life.stopped().then(() => "stopped" as const)]);
      await turn();
      if (result === "taken" && life.state() !== "dead") return;
      if (result instanceof Error && !isFault(result)) throw result;
    }
    throw new Error("a command was never answered");
  }

  close(): void {
    for (const engine of this.#engines) engine.close();
  }
}

function isFault(error: Error): boolean {
  return error.name === "Crashed" || ("code" in error && error.code === "queue_unavailable");
}

function isSame(a: { runId: string; owedAt: number; index: number }, b: typeof a): boolean {
  return a.runId === b.runId && a.owedAt === b.owedAt && a.index === b.index;
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** @returns what is wrong beside the run, if anything. */
async function perform(stage: Stage, { agent, runId, seed }: PlayOptions): Promise<string | undefined> {
  const { world } = stage;
  await stage.command((engine) => engine.client.start(agent.name, `chaos ${runId}`, { runId }));
  for (let rounds = 0; stage.deliveries < mostDeliveries && rounds < mostRounds; rounds += 1) {
    await turn();
    stage.replaceIfStopped();
    stage.wake(false);
    const took = stage.takeDue();
    if (await stage.nextChange()) continue;
    if (took || stage.wake(true)) continue;
    const run = await world.store.load(runId);
    if (!run) return undefined;
    const call = isEnded(run) ? undefined : run.calls.find((open) => decide(seed, runId, open) !== undefined);
    if (call) {
      await settle(stage, run, { callId: call.callId, seed });
      continue;
    }
    const step = await moveTime(stage);
    if (step === "nothing left") return isEnded(run) ? undefined : "nothing is queued and nobody is asked";
  }
  return `it goes in circles: ${stage.deliveries} deliveries`;
}

async function settle(stage: Stage, run: Run, { callId, seed }: { callId: string; seed: number }): Promise<void> {
  const call = run.calls.find((open) => open.callId === callId);
  const decision = call && decide(seed, run.runId, call);
  if (!call || !decision) return;
  const decisionId = `${callId}-${call.state}`;
  await stage.command((engine) => {
    const handle = engine.handle(run.runId);
    if (decision.type === "approve") return handle.approve(callId, { by: "ann", decisionId });
    if (decision.type === "deny") return handle.deny(callId, { by: "ann", decisionId, reason: "not today" });
    return handle.answer(callId, decision.value, { by: "ann", decisionId });
  });
}

/** To the next due step; without one, as far as a sweeper needs to see that something is missing. */
async function moveTime({ world }: Stage): Promise<"moved" | "nothing left"> {
  const { clock, queue, store } = world;
  const times = queue.list().flatMap(({ state, dueAt }) => (state === "delayed" ? [dueAt] : []));
  if (times.length > 0) {
    clock.advance(Math.max(0, Math.min(...times) - clock.now()));
    return "moved";
  }
  clock.advance(sweepAfterMs);
  await sweep({ store, queue, clock, logger: createSilentLogger() });
  return queue.list().length > 0 ? "moved" : "nothing left";
}
