// What operators decide about tools from outside the code (features H19): plain data, applied on top of each tool's own
// settings when a call is planned. Operators may tighten or loosen; the model can do neither.

import { z } from "zod";
import type { Effect } from "./agent.ts";

/**
 * One rule. `agent` and `tool` are patterns: `*` stands for any characters, `?` for one.
 * - `agent`: default any;
 * - `effect`: what the tool counts as; one made irreversible asks, unless a rule or its own predicate says otherwise;
 * - `approval`: whether a person must say yes first;
 * - `approvalExpiresMs`: a call that nobody approved, or a question that nobody answered, within this time counts as denied;
 * - `allow`: false: the tool is not offered, and a call of it is refused.
 */
export type PolicyRule = {
  agent?: string | undefined;
  tool: string;
  effect?: Effect | undefined;
  approval?: "always" | "never" | undefined;
  approvalExpiresMs?: number | undefined;
  allow?: boolean | undefined;
};
/** Rules in order. For each field the first rule counts that fits the tool and has the field. */
export type Policy = readonly PolicyRule[];

/** Which rule (from 1) decided a field, and what. */
type Ruled<T> = { value: T; rule: number };
/** What a policy says about one tool of one agent; a field that no rule sets is left to the tool. */
export type Ruling = {
  effect?: Ruled<Effect> | undefined;
  approval?: Ruled<"always" | "never"> | undefined;
  approvalExpiresMs?: Ruled<number> | undefined;
  allow?: Ruled<boolean> | undefined;
};

const tenYearsMs = 10 * 365 * 24 * 3_600_000;
const mostRules = 1_000;
const effects = ["read", "write", "irreversible"] as const;
const fields = ["effect", "approval", "approvalExpiresMs", "allow"] as const;

const pattern = z.string("expected text").min(1, "expected a pattern").max(128, "expected at most 128 characters");
const ruleSchema = z
  .strictObject(
    {
      agent: pattern.optional(),
      tool: pattern,
      effect: z.enum(effects, 'expected "read", "write" or "irreversible"').optional(),
      approval: z.enum(["always", "never"], 'expected "always" or "never"').optional(),
      approvalExpiresMs: z
        .int("expected a whole number of ms")
        .min(1, "expected at least 1 ms")
        .max(tenYearsMs, "expected at most 10 years")
        .optional(),
      allow: z.boolean("expected true or false").optional(),
    },
    { error: (issue) => (issue.code === "invalid_type" ? "expected an object" : undefined) },
  )
  .refine((rule) => fields.some((field) => rule[field] !== undefined), `it sets none of ${fields.join(", ")}`);

/** The one form of a policy, in code and in configuration. */
const policySchema: z.ZodType<PolicyRule[]> = z
  .array(ruleSchema, "expected a list of rules")
  .max(mostRules, `expected at most ${mostRules} rules`);

/** A policy out of any value, or everything that is wrong with it, by number of the rule (from 1) and field. */
export function parsePolicy(value: unknown): { ok: true; policy: Policy } | { ok: false; problems: string[] } {
  const parsed = policySchema.safeParse(value);
  if (parsed.success) return { ok: true, policy: parsed.data };
  return { ok: false, problems: parsed.error.issues.flatMap(toProblems) };
}

function toProblems(issue: z.core.$ZodIssue): string[] {
  const [index, ...path] = issue.path;
  const rule = index === undefined ? [] : [`rule ${Number(index) + 1}`];
  const at = [...rule, ...path.map(String)].join(", ");
  if (issue.code === "unrecognized_keys") return issue.keys.map((key) => `${at}: unknown field "${key}"`);
  return [at === "" ? issue.message : `${at}: ${issue.message}`];
}

/**
 * A key that an object in JSON text has twice, as it stands there; undefined if there is none. Of two rules that were run
 * into one, JSON would silently keep the last.
 */
export function findRepeatedKey(json: string): string | undefined {
  const open = [new Set<string>()];
  for (const [token, text] of json.matchAll(/("(?:[^"\\]|\\.)*")\s*:|"(?:[^"\\]|\\.)*"|[{}]/g)) {
    if (token === "{") open.push(new Set());
    else if (token === "}") open.pop();
    else if (text !== undefined) {
      const keys = open.at(-1) as Set<string>;
      const key = JSON.parse(text) as string;
      if (keys.has(key)) return text;
      keys.add(key);
    }
  }
  return undefined;
}

/** What a policy says about a tool of an agent. */
export function rulingOn(policy: Policy, { agent, tool }: { agent: string; tool: string }): Ruling {
  const ruling: { [field: string]: Ruled<unknown> } = {};
  policy.forEach((rule, index) => {
    if (!matches(rule.tool, tool) || !matches(rule.agent ?? "*", agent)) return;
    for (const field of fields) {
      const value = rule[field];
      if (value !== undefined) ruling[field] ??= { value, rule: index + 1 };
    }
  });
  return ruling as Ruling;
}

export function isForbidden({ allow }: Ruling): boolean {
  return allow?.value === false;
}

/** `policy rule 1: approval always; policy rule 3: effect write`, for records and people. Empty if nothing was ruled. */
export function rulingText(ruling: Ruling): string {
  const byRule = new Map<number, string[]>();
  for (const field of fields) {
    const ruled = ruling[field];
    if (ruled) byRule.set(ruled.rule, [...(byRule.get(ruled.rule) ?? []), `${field} ${ruled.value}`]);
  }
  const rules = [...byRule].sort(([a], [b]) => a - b);
  return rules.map(([rule, said]) => `policy rule ${rule}: ${said.join(", ")}`).join("; ");
}

/**
 * Whether a pattern fits a whole text: `*` is any characters, `?` one. In time of at most the product of their lengths,
 * whatever the pattern.
 */
export function matches(glob: string, text: string): boolean {
  let at = 0;
  let position = 0;
  let star = -1;
  let resume = 0;
  while (position < text.length) {
    if (glob[at] === "*") {
      star = at++;
      resume = position;
    } else if (at < glob.length && (glob[at] === "?" || glob[at] === text[position])) {
      at++;
      position++;
    } else if (star >= 0) {
      // What the last star stands for is one character longer.
      at = star + 1;
      position = ++resume;
    } else return false;
  }
  while (glob[at] === "*") at++;
  return at === glob.length;
}
