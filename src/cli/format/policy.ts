import { isForbidden, type Policy, rulingOn, rulingText } from "../../core/policy.ts";
import type { Agent } from "../../define-agent.ts";
import { governTool, rulingFor } from "../../tools/govern-tool.ts";
import { toOneLine } from "./text.ts";

/** How a tool of an agent will be treated. `rule`: the rules of the policy that decided anything; empty: its own code. */
export type ToolSettings = {
  agent: string;
  tool: string;
  allowed: boolean;
  effect: string;
  approval: "always" | "never" | "by its arguments";
  approvalExpiresMs?: number | undefined;
  /** Set for one that nothing executes; `expiresMs`: how long its answer is waited for. */
  answeredBy?: "person" | undefined;
  expiresMs?: number | undefined;
  rule: string;
};

/** The tools of these agents as a policy has them. */
export function settingsUnder(agents: readonly Agent[], policy: Policy): ToolSettings[] {
  return agents.flatMap((agent) =>
    agent.tools.map((tool) => {
      const ruling = rulingFor(tool, rulingOn(policy, { agent: agent.name, tool: tool.name }));
      const { effect, approval, approvalExpiresMs, answeredBy, expiresMs } = governTool(tool, ruling);
      return {
        agent: agent.name,
        tool: tool.name,
        allowed: !isForbidden(ruling),
        effect,
        approval: typeof approval === "function" ? "by its arguments" : approval,
        ...(approvalExpiresMs === undefined ? {} : { approvalExpiresMs }),
        ...(answeredBy ? { answeredBy } : {}),
        ...(expiresMs === undefined ? {} : { expiresMs }),
        rule: rulingText(ruling),
      };
    }),
  );
}

/** The same as a table: head and rows. */
export function toSettingsRows(settings: readonly ToolSettings[]): [string[], string[][]] {
  const rows = settings.map(({ agent, tool, rule, ...setting }) => [
    toOneLine(agent, 40),
    toOneLine(tool, 64),
    ...toSetting(setting),
    rule === "" ? "the tool's own" : rule,
  ]);
  return [["agent", "tool", "effect", "approval", "expires after", "by"], rows];
}

/** Effect, approval and expiry. */
function toSetting(setting: Omit<ToolSettings, "agent" | "tool" | "rule">): [string, string, string] {
  const { allowed, effect, approval, approvalExpiresMs, answeredBy, expiresMs } = setting;
  if (!allowed) return ["not allowed", "", ""];
  const seconds = (ms: number | undefined): string => (ms === undefined ? "" : `${ms / 1_000} s`);
  if (answeredBy) return [`answered by a ${answeredBy}`, "", seconds(expiresMs)];
  return [effect, approval, approval === "never" ? "" : seconds(approvalExpiresMs)];
}
