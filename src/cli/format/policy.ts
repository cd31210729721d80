import { isForbidden, type Policy, rulingOn, rulingText } from "../../core/policy.ts";
import type { Agent } from "../../define-agent.ts";
import { governTool } from "../../tools/govern-tool.ts";
import { toOneLine } from "./text.ts";

/** How a tool of an agent will be treated. `rule`: the rules of the policy that decided anything; empty: its own code. */
export type ToolSettings = {
  agent: string;
  tool: string;
  allowed: boolean;
  effect: string;
  approval: "always" | "never" | "by its arguments";
  approvalExpiresMs?: number | undefined;
  rule: string;
};

/** The tools of these agents as a policy has them. */
export function settingsUnder(agents: readonly Agent[], policy: Policy): ToolSettings[] {
  return agents.flatMap((agent) =>
    agent.tools.map((tool) => {
      const ruling = rulingOn(policy, { agent: agent.name, tool: tool.name });
      const { effect, approval, approvalExpiresMs } = governTool(tool, ruling);
      return {
        agent: agent.name,
        tool: tool.name,
        allowed: !isForbidden(ruling),
        effect,
        approval: typeof approval === "function" ? "by its arguments" : approval,
        ...(approvalExpiresMs === undefined ? {} : { approvalExpiresMs }),
        rule: rulingText(ruling),
      };
    }),
  );
}

/** The same as a table: head and rows. */
export function toSettingsRows(settings: readonly ToolSettings[]): [string[], string[][]] {
  const rows = settings.map(({ agent, tool, allowed, effect, approval, approvalExpiresMs, rule }) => [
    toOneLine(agent, 40),
    toOneLine(tool, 64),
    allowed ? effect : "not allowed",
    allowed ? approval : "",
    allowed && approval !== "never" && approvalExpiresMs !== undefined ? `${approvalExpiresMs / 1_000} s` : "",
    rule === "" ? "the tool's own" : rule,
  ]);
  return [["agent", "tool", "effect", "approval", "expires after", "by"], rows];
}
