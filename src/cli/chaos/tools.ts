import { isHarmless } from "../../chaos/chaos-agent.ts";
import { makeScripts, readScript, type Scripts } from "../../chaos/script.ts";
import { DroverError } from "../../core/errors.ts";
import type { Agent } from "../../define-agent.ts";
import type { Tool } from "../../tools/define-tool.ts";

/** Of which tools the code is executed. */
export type ToolMode = "real" | "harmless" | "stub";

/** @throws DroverError "invalid" for both options at once. */
export function toMode({ realTools, stubTools }: { realTools?: boolean; stubTools?: boolean }): ToolMode {
  if (realTools && stubTools) {
    throw new DroverError("invalid", "--real-tools and --stub-tools exclude each other: give one of them.");
  }
  if (realTools) return "real";
  return stubTools ? "stub" : "harmless";
}

export function realUnder(mode: string): (tool: Tool) => boolean {
  if (mode === "real") return () => true;
  return mode === "stub" ? () => false : isHarmless;
}

/** What the model says: by the script file where that has something for the agent, else made up. */
export function toScriptsOf(file: string | undefined): (agent: Agent, seed: number) => Scripts {
  const given = file === undefined ? undefined : readScript(file);
  return (agent, seed) => {
    const script = given?.(agent.name);
    return script ? () => script : makeScripts(agent, seed);
  };
}
