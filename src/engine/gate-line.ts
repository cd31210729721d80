import { holdOf, owed, type Step } from "../core/owed.ts";
import type { Run } from "../core/run.ts";
import type { Called, FleetGates, Logger, RunStore, StepQueue } from "../ports.ts";
import { quietly } from "./quietly.ts";

/** Under which name a model or tool step stands at a gate: the same however often it is held. */
export function holderOf(run: Run, { callId }: Pick<Step, "callId">): string {
  return `${run.runId}:${callId ?? `model-${run.turns + 1}`}`;
}

/** The step that the run owes under this name. */
export function stepOf(run: Run, holder: string): Step | undefined {
  const gated = owed(run).filter(({ kind }) => kind === "model" || kind === "tool");
  return gated.find((step) => holderOf(run, step) === holder);
}

/** Those whose turn it is at a gate. Nothing here rejects: what fails is made good by waits that end by themselves. */
export type GateLine = {
  /** Lets the steps go on whose turn has come; places of those that are not owed any more go to the next. */
  wake(called: Called[]): Promise<void>;
  leave(key: string, who: { holder: string; token: string }): Promise<void>;
  giveUp(key: string, holder: string): Promise<void>;
  /** Gives up every place that a run that has ended still has. */
  giveUpAll(held: Run): Promise<void>;
};

type Deps = { gates: FleetGates; store: RunStore; queue: StepQueue; logger: Logger };

export function createGateLine({ gates, store, queue, logger }: Deps): GateLine {
  async function wakeOne({ key, holder }: Called): Promise<void> {
    const run = await store.load(holder.slice(0, holder.indexOf(":")));
    const step = run && stepOf(run, holder);
    if (!step) await wakeAll(await gates.giveUp(key, holder));
    // Not delayed: it is on its way to the gate, or about to be delayed; whoever does that looks once more.
    else await queue.promote(step);
  }

  async function wakeAll(called: Called[]): Promise<void> {
    await Promise.all(called.map(wakeOne));
  }

  const giveUp = (key: string, holder: string): Promise<void> =>
    quietly(logger, { gate: key }, "a place at a limit could not be given up; it expires", async () =>
      wakeAll(await gates.giveUp(key, holder)),
    );

  return {
    wake: (called) =>
      quietly(logger, {}, "a step whose turn has come could not be woken; it looks by itself", () => wakeAll(called)),
    leave: (key, who) =>
      quietly(logger, { gate: key }, "a place at a limit could not be given back; it expires", async () =>
        wakeAll(await gates.leave(key, who)),
      ),
    giveUp,
    async giveUpAll(held) {
      const steps = owed(held).flatMap((step) => {
        const gate = holdOf(held, step)?.gate;
        return gate === undefined || (step.kind !== "model" && step.kind !== "tool") ? [] : [{ gate, step }];
      });
      await Promise.all(steps.map(({ gate, step }) => giveUp(gate, holderOf(held, step))));
    },
  };
}
