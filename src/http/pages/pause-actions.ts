import type { HttpDeps } from "../types.ts";
import type { Act } from "./actions.ts";
import { given } from "./actions.ts";
import { param } from "./run-page.ts";

export const pause: Act = async (context, { reason }) => {
  const by = context.var.caller.name;
  const asked = given(reason);
  const done = await context.var.runs
    .get(param(context, "id"))
    .pause({ by, ...(asked === undefined ? {} : { reason: asked }) });
  return { notice: done ? "paused" : "paused-before" };
};

export const resume: Act = async (context) => {
  const done = await context.var.runs.get(param(context, "id")).resume({ by: context.var.caller.name });
  return { notice: done ? "resumed" : "not-paused" };
};

/** Of the whole fleet. */
export function pauseFleet({ pausing }: Pick<HttpDeps, "pausing">): Act {
  return async (context, { reason }) => {
    const { applied, taking } = await pausing.pauseAll({ by: context.var.caller.name, reason: given(reason) });
    if (!applied) return { notice: "paused-before", back: "/ui/fleet" };
    return { notice: taking === 0 ? "fleet-paused" : "fleet-pausing", back: "/ui/fleet" };
  };
}

export function resumeFleet({ pausing }: Pick<HttpDeps, "pausing">): Act {
  return async () => ({ notice: (await pausing.resumeAll()) ? "fleet-resumed" : "not-paused", back: "/ui/fleet" });
}
