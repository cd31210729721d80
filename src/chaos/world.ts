import { defaultPayloadLimitBytes } from "../core/defaults.ts";
import type { Agent } from "../define-agent.ts";
import { createEngine, type Engine } from "../engine/engine.ts";
import type { AgentCode, FleetGates, RunStore } from "../ports.ts";
import { createSilentLogger } from "../telemetry/logger.ts";
import { type ManualClock, manualClock } from "../testing/manual-clock.ts";
import { createMemoryGates } from "../testing/memory-gates.ts";
import { createMemoryRunStore } from "../testing/memory-run-store.ts";
import { createMemorySignals, type MemorySignals } from "../testing/memory-signals.ts";
import { createMemoryStepQueue, type MemoryStepQueue } from "../testing/memory-step-queue.ts";
import { checkValue } from "../tools/parameters.ts";
import type { Life } from "./ports.ts";
import { createWitness } from "./witness.ts";

/** What survives the death of a process, in memory and by a manual clock. */
export type MemoryWorld = {
  clock: ManualClock;
  signals: MemorySignals;
  store: RunStore;
  queue: MemoryStepQueue;
  gates: FleetGates;
  /** A process over it. */
  process(life: Life, agents: readonly Agent[]): Engine;
};

/** @param breakStore spoils the store, for tests that a fault of it is found. */
export function makeMemoryWorld(breakStore: (store: RunStore) => RunStore = (store) => store): MemoryWorld {
  const clock = manualClock();
  const signals = createMemorySignals();
  const store = breakStore(createMemoryRunStore({ clock, signals }));
  const queue = createMemoryStepQueue({ clock });
  const gates = createMemoryGates({ clock });
  let count = 0;
  const name = (): string => {
    count += 1;
    return `t${count}`;
  };
  return {
    clock,
    signals,
    store,
    queue,
    gates,
    process(life, agents) {
      const codes = new Map(agents.map((agent) => [agent.name, withDeaths(agent.code, life)]));
      return createEngine({
        store: life.wrap("store", store),
        queue: life.wrap("queue", queue),
        gates: life.wrap("gates", gates),
        signals: { ...signals, announce: life.wrap("signals", { announce: signals.announce }).announce },
        clock,
        ids: { token: name, runId: name, random: () => 0.5 },
        agents: { get: (agent) => codes.get(agent) },
        telemetry: createWitness(),
        logger: createSilentLogger(),
        payloadLimitBytes: defaultPayloadLimitBytes,
        checkValue,
      });
    },
  };
}

/** Before and after each model call and each execution of a tool a process can die too. */
function withDeaths(code: AgentCode, life: Life): AgentCode {
  return {
    ...code,
    model: life.wrap("model", code.model),
    tools: { ...code.tools, execute: life.wrap("tools", { execute: code.tools.execute }).execute },
  };
}
