// Child runs: a call whose execution is a run of its own. Parent and child are two records that no commit changes together;
// each owes the steps that bring the other up to date.
//
// K1. The id of a child follows from its parent and its call alone, so starting it twice starts one.
// K2. A child that has ended owes its parent a word until that was given, and a parent's call looks at its child by itself
//     now and then: neither a lost word nor a lost child leaves the call open.
// K3. A run that ends owes the ends of all children that its calls wait for; a child that comes to life after that finds
//     at its first step that nobody waits for it, and ends.

/** What becomes of a call whose child did not complete: the model reads why, the run fails, or the child is retried first. */
export const childFailurePolicies = ["continue", "fail", "retry"] as const;
export type ChildFailurePolicy = (typeof childFailurePolicies)[number];

/** How a call of a tool that stands for an agent is treated. `retries`: for "retry", how often its child is retried. */
export type ChildPlan = { agent: string; onFailure: ChildFailurePolicy; retries: number };

/**
 * The run that is a call's execution.
 * - `since`: when the call began to wait for it; undefined: it was not started yet, as far as is known;
 * - `begunBy`: `owedAt` of the step that started it, which names the call's span;
 * - `lookedFor`: at which revision of the child's end the call was told of it;
 * - `lost`: how often its record was found to be gone.
 */
export type CallChild = ChildPlan & {
  runId: string;
  since?: number | undefined;
  begunBy?: number | undefined;
  lookedFor?: number | undefined;
  lost?: number | undefined;
};

/**
 * Whose child a run is.
 * - `depth`: 1 for a child of a run that is nobody's child;
 * - `retries`: how often its parent has retried it;
 * - `owedAt`: it has ended and its parent is still to be told.
 */
export type RunParent = {
  runId: string;
  callId: string;
  depth: number;
  retries?: number | undefined;
  owedAt?: number | undefined;
};

/** Children that are to end because their parent has. */
export type LeftChildren = { runIds: string[]; owedAt: number };

export const defaultChildDepth = 5;

const longestRunId = 128;

/** What tells a run from another that had its id before. */
type Parent = { runId: string; createdAt: number; inputHash: string };

/** The id of the run that a call starts. Told apart from those of another parent that had the same id. */
export function childIdOf({ runId, createdAt, inputHash }: Parent, callId: string): string {
  const end = `.${callId}.${hash(`${runId} ${createdAt} ${inputHash} ${callId}`)}`;
  return `${runId.slice(0, longestRunId - end.length)}${end}`;
}

/** 53 bits of the text (cyrb53) in base 36: names, no secret. */
function hash(text: string): string {
  let [high, low] = [0xdeadbeef, 0x41c6ce57];
  for (const character of text) {
    const code = character.codePointAt(0) as number;
    high = Math.imul(high ^ code, 2_654_435_761);
    low = Math.imul(low ^ code, 1_597_334_677);
  }
  high = Math.imul(high ^ (high >>> 16), 2_246_822_507) ^ Math.imul(low ^ (low >>> 13), 3_266_489_909);
  low = Math.imul(low ^ (low >>> 16), 2_246_822_507) ^ Math.imul(high ^ (high >>> 13), 3_266_489_909);
  return (4_294_967_296 * (2_097_151 & low) + (high >>> 0)).toString(36);
}

const firstLookMs = 2_000;
const longestLookMs = 600_000;

/** When a call looks at its child again: after a quarter of the time it has waited, between 2 s and 10 min. */
export function nextLookAt(since: number, at: number): number {
  return at + Math.min(Math.max((at - since) / 4, firstLookMs), longestLookMs);
}

/** The name under which a child's usage is counted in its parent, once. */
export const nameOfChildUsage = (childId: string): string => `child ${childId}`;
