import type { Evidence } from "./evidence.ts";

/**
 * What is no failure, and worth a look: a tool that says it is idempotent returned different results under one key, and
 * told of no effect by which it could be judged. It may well be right: "created", and then "there already".
 */
export type Hint = { tool: string; key: string };

export function hintsOf({ executions, tools }: Pick<Evidence, "executions" | "tools">): Hint[] {
  const judged = new Set(executions.flatMap((one) => (one.type === "effect" ? [one.key] : [])));
  const results = new Map<string, Hint & { results: Set<string> }>();
  for (const one of executions) {
    if (one.type !== "ended" || one.outcome !== "ok" || one.result === undefined || judged.has(one.key)) continue;
    const tool = tools.get(one.tool);
    if (!tool?.idempotent || tool.effect === "read") continue;
    const known = results.get(one.key) ?? { tool: one.tool, key: one.key, results: new Set() };
    known.results.add(one.result);
    results.set(one.key, known);
  }
  const different = [...results.values()].filter((known) => known.results.size > 1);
  return different.map(({ tool, key }) => ({ tool, key }));
}

/** One for each tool: the first that was found. */
export function addHints(to: readonly Hint[], more: readonly Hint[]): Hint[] {
  const known = new Set(to.map(({ tool }) => tool));
  const added = more.filter(({ tool }) => !known.has(tool) && known.add(tool));
  return [...to, ...added];
}
