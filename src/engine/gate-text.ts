import type { FleetLimits } from "../core/agent.ts";
import { rateText } from "../core/fleet-limits.ts";

/** Why a step waits, for people. `what`: such as `the tool "search"`. */
export function waitText(what: string, reason: "rate_limit" | "concurrency_limit", limits: FleetLimits): string {
  const { rate, concurrency } = limits;
  const bound = reason === "rate_limit" && rate ? rateText(rate) : `${concurrency} at once`;
  return `It waits for its turn: ${what} is limited to ${bound}, over all workers.`;
}

export function pausedText(what: string, until: number): string {
  return `The provider asked for a pause of ${what} until ${new Date(until).toISOString()}. The run goes on by itself.`;
}

/** What the model reads of a call to a tool that is switched off. Times are epoch ms. */
export function offText(
  off: { tool: string; failures: number; until: number; fallback: string | undefined },
  at: number,
): string {
  const { tool, failures, until, fallback } = off;
  const seconds = Math.max(1, Math.ceil((until - at) / 1_000));
  const times = failures === 1 ? "once" : `${failures} times in a row`;
  const instead =
    fallback === undefined
      ? "Go on without it, try again after that, or say in your answer what was not done."
      : `Use "${fallback}" instead.`;
  return (
    `"${tool}" is switched off until ${new Date(until).toISOString()} (for ${seconds} s), because it failed ${times}. ` +
    `This call was not executed. ${instead}`
  );
}
