import type { Step } from "../core/owed.ts";
import type { Redaction } from "../core/redact-event.ts";
import type { AgentRegistry, Clock, Durable, Ids, Logger, RunStore, Signals, StepQueue, Telemetry } from "../ports.ts";
import type { Advance } from "./advance.ts";

/** Whether another worker takes the steps of an agent that is not known here. Never rejects. */
export type Elsewhere = (agent: string, step: Step) => Promise<boolean>;

/** What every step needs. Wired once by the composition root. */
export type EngineDeps = {
  store: RunStore;
  queue: StepQueue;
  clock: Clock;
  ids: Ids;
  agents: AgentRegistry;
  signals: Signals;
  telemetry: Telemetry;
  logger: Logger;
  advance: Advance;
  redaction: Redaction;
  durable?: Durable | undefined;
  elsewhere?: Elsewhere | undefined;
};
