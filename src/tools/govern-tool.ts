import type { Ruling } from "../core/policy.ts";
import type { Tool } from "./define-tool.ts";

/**
 * What of a ruling bears on the tool. One that a person answers is not executed, so that it has no effect and needs no
 * approval; for how long a person is waited for, and whether it may be used at all, operators say as of any other.
 */
export function rulingFor({ answeredBy }: Tool, ruling: Ruling): Ruling {
  const { allow, approvalExpiresMs } = ruling;
  return answeredBy ? { allow, approvalExpiresMs } : ruling;
}

/**
 * The tool as a policy has it. An effect alone never makes a tool ask less: one that is made irreversible asks for every
 * call unless it has a predicate of its own, one that is made less asks as before. Only `approval` loosens.
 */
export function governTool(tool: Tool, given: Ruling): Tool {
  const ruling = rulingFor(tool, given);
  if (tool.answeredBy) return Object.freeze({ ...tool, expiresMs: ruling.approvalExpiresMs?.value ?? tool.expiresMs });
  const effect = ruling.effect?.value ?? tool.effect;
  const approval = ruling.approval?.value ?? (isRaised(tool, ruling) ? "always" : tool.approval);
  const approvalExpiresMs = ruling.approvalExpiresMs?.value ?? tool.approvalExpiresMs;
  return Object.freeze({ ...tool, effect, approval, approvalExpiresMs });
}

function isRaised(tool: Tool, { effect }: Ruling): boolean {
  return effect?.value === "irreversible" && tool.effect !== "irreversible" && tool.approval === "never";
}

/** Why a call of a governed tool asks a person, for people. `tool`: as it was defined. */
export function reasonToAsk(tool: Tool, ruling: Ruling): string {
  if (tool.answeredBy) return "the tool is answered by a person";
  if (ruling.approval) return `policy rule ${ruling.approval.rule}: approval ${ruling.approval.value}`;
  if (ruling.effect && isRaised(tool, ruling)) return `policy rule ${ruling.effect.rule}: effect irreversible`;
  if (typeof tool.approval === "function") return "the tool asks for these arguments";
  return tool.effect === "irreversible"
    ? "the tool is irreversible and asks for every call"
    : "the tool asks for every call";
}
