import type { OpenCall } from "../core/run.ts";
import { isObject } from "../tools/json-schema.ts";
import { toValueSchema } from "../tools/parameters.ts";
import { randomFor, stableName } from "./random.ts";
import { sampleFor } from "./sample.ts";

export type Decision = { type: "approve" } | { type: "deny" } | { type: "answer"; value: unknown };

/** What a person says about an open call: the same whenever asked. Undefined for a call that waits for nobody. */
export function decide(seed: number, runId: string, call: OpenCall): Decision | undefined {
  const random = randomFor(seed, "decide", stableName(runId), call.callId);
  if (call.state === "asking") return { type: "deny" };
  if (call.state === "approval") return { type: random.chance(0.85) ? "approve" : "deny" };
  if (call.state !== "answer") return undefined;
  if (!isObject(call.answerSchema)) return { type: "answer", value: `answer to ${call.callId}` };
  const made = sampleFor(toValueSchema(call.answerSchema), random);
  return made ? { type: "answer", value: made.value } : { type: "deny" };
}
