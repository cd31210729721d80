export { Crashed, type CrashPoint, crashAt, createFaults, type Faults } from "./faults.ts";
export { type ManualClock, manualClock } from "./manual-clock.ts";
export { createMemoryDrover, type MemoryDroverOptions } from "./memory-drover.ts";
export { createMemoryGates } from "./memory-gates.ts";
export { createMemoryRunStore } from "./memory-run-store.ts";
export { createMemorySignals } from "./memory-signals.ts";
export { createMemoryStepQueue, type MemoryStepQueue } from "./memory-step-queue.ts";
export { recordEffect } from "./record-effect.ts";
export {
  type ScriptedModel,
  type ScriptedReply,
  type ScriptedStep,
  type ScriptedTurn,
  scriptedModel,
} from "./scripted-model.ts";
