import type { FleetLimits } from "../core/agent.ts";
import { type OperatorLimits, tightenFleetLimits } from "../core/fleet-limits.ts";
import type { AgentCode, KnownGate, ModelGate } from "../ports.ts";

/** Where a call stands, and what holds there: its own limits and the operators', whichever are stricter. */
export type Place = { key: string; limits: FleetLimits };

/** All tools of one name share a place, whichever agent they belong to. */
export function placeOfTool(name: string, own: FleetLimits, limits: OperatorLimits | undefined): Place {
  return { key: toolKey(name), limits: tightenFleetLimits(own, limits?.tools?.[name]) };
}

export function toolKey(name: string): string {
  return `tool:${name}`;
}

/** A model of one server is one place, whichever agents use it. */
export function placeOfModel(gate: ModelGate, limits: OperatorLimits | undefined): Place {
  return { key: gate.key, limits: tightenFleetLimits(gate, limits?.models?.[gate.model]) };
}

/**
 * The gates that steps of these agents stand at: their models, since a provider may ask to be left alone, and their tools
 * as far as they have a limit or a breaker. Of tools that share a gate the strictest limits are shown.
 */
export function knownGates(agents: readonly AgentCode[], limits: OperatorLimits | undefined): KnownGate[] {
  const gates = new Map<string, KnownGate>();
  const add = (gate: Pick<KnownGate, "kind" | "name">, place: Place): void => {
    const { rate, concurrency } = tightenFleetLimits(place.limits, gates.get(place.key));
    gates.set(place.key, { key: place.key, ...gate, rate, concurrency });
  };
  for (const agent of agents) {
    for (const model of [agent.modelGate(), agent.summariser.gate()]) {
      add({ kind: "model", name: model.model }, placeOfModel(model, limits));
    }
    for (const { name } of agent.definition.tools) {
      const tool = agent.tools.gate(name);
      if (!tool) continue;
      const place = placeOfTool(name, tool, limits);
      const { rate, concurrency } = place.limits;
      if (tool.breaker || rate || concurrency !== undefined) add({ kind: "tool", name }, place);
    }
  }
  return [...gates.values()];
}
