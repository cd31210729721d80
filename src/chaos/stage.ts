import { setTimeout as sleep } from "node:timers/promises";
import { toError } from "../core/errors.ts";
import type { Agent } from "../define-agent.ts";
import type { Engine } from "../engine/engine.ts";
import type { StepOutcome } from "../ports.ts";
import type { FaultyPorts, Life } from "./ports.ts";
import type { MemoryWorld } from "./world.ts";

const quietTurns = 20;
/** Of real time; what is slower than that, beside the agent's own code, hangs. */
const silenceMs = 5_000;
/** It is counted in so many parts: this process itself may be stopped for a while, or kept busy by a tool. */
const silenceParts = 20;

/** A step in the hands of a process. */
type Held = { life: Life; done: Promise<void>; settled: boolean };
type Current = { life: Life; engine: Engine };

/** The processes of a play, one at a time, and the steps they hold. */
export class Stage {
  readonly world: MemoryWorld;
  readonly #ports: FaultyPorts;
  readonly #agents: readonly Agent[];
  readonly #engines: Engine[] = [];
  #current: Current;
  #held: { step: Held; redeliver: () => void }[] = [];
  #asleep: { life: Life; held: Held[]; sinceDelivery: number }[] = [];
  deliveries = 0;
  redeliveries = 0;
  silenceMs: number = silenceMs;

  constructor(world: MemoryWorld, ports: FaultyPorts, agents: readonly Agent[]) {
    this.world = world;
    this.#ports = ports;
    this.#agents = agents;
    this.#current = this.#begin();
  }

  #begin(): Current {
    const life = this.#ports.begin();
    const engine = this.world.process(life, this.#agents);
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
    let parts = 0;
    const timeout = setInterval(() => {
      parts += 1;
      if (parts >= silenceParts) timer.reject(new Error("a step neither ends nor fails"));
    }, this.silenceMs / silenceParts);
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
      clearInterval(timeout);
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

/** What is at hand may go on. */
export const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
