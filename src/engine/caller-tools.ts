import { sharedNames } from "../core/caller-tools.ts";
import type { Run } from "../core/run.ts";
import type { AgentCode, ModelFailure } from "../ports.ts";

/** Why a run's caller cannot have tools of these names with this agent; undefined if it can. */
export function nameProblem(agent: AgentCode | undefined, tools: Run["tools"]): string | undefined {
  if (!agent || !tools) return undefined;
  // Those that a policy forbids count too: the model must not reach them under the caller's description.
  const shared = sharedNames(tools, (name) => agent.tools.retryPolicy(name) !== undefined);
  if (shared.length === 0) return undefined;
  const names = shared.map((name) => `"${name}"`).join(", ");
  return `the agent "${agent.definition.name}" has tools of its own named ${names}. Give yours other names`;
}

/** The failure of a run whose caller's tools came to share names with its agent's, by a start or by a new version. */
export function nameFailure(problem: string): Pick<ModelFailure, "code" | "message"> {
  return {
    code: "tool_name_taken",
    message: `The tools that came with the start cannot be offered: ${problem}, or rename the agent's and retry the run.`,
  };
}
