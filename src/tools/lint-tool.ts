import type { Tool } from "./define-tool.ts";
import { branchesOf, isObject, type JsonSchema, resolveSchema } from "./json-schema.ts";

/** Something about a tool that will make models use it wrongly. */
export type ToolFinding = { tool: string; problem: string };

const maxDepth = 8;

/**
 * What a tool's description lacks of the four elements (what it does, what each parameter means, its format, one
 * example), as far as a program can tell.
 */
export function lintTool(tool: Tool): ToolFinding[] {
  const { name, description, parameters } = tool;
  const undescribed = undescribedIn(parameters.schema, parameters.schema, "", 0);
  const hasParameters = isObject(parameters.schema.properties) && Object.keys(parameters.schema.properties).length > 0;
  const problems = [
    ...(description.trim() === "" ? ["it has no description: say what it does and when to use it"] : []),
    ...undescribed.map((path) => `parameter "${path}" has no description: say what it means and its format`),
    ...(hasParameters && description.trim() !== "" && !/\bexamples?\b|\be\.g\./i.test(description)
      ? ['its description has no example: end it with one, such as Example: {"city":"Oslo"}']
      : []),
  ];
  return problems.map((problem) => ({ tool: name, problem }));
}

function undescribedIn(root: JsonSchema, schema: unknown, path: string, depth: number): string[] {
  const resolved = resolveSchema(root, schema);
  if (!resolved || depth > maxDepth) return [];
  const branches = branchesOf(root, resolved).flatMap((branch) => undescribedIn(root, branch, path, depth + 1));
  const items = isObject(resolved.items) ? undescribedIn(root, resolved.items, `${path}[]`, depth + 1) : [];
  const properties = isObject(resolved.properties) ? Object.entries(resolved.properties) : [];
  const inner = properties.flatMap(([key, value]) => {
    const at = path === "" ? key : `${path}.${key}`;
    const missing = isDescribed(value) || isDescribed(resolveSchema(root, value)) ? [] : [at];
    return [...missing, ...undescribedIn(root, value, at, depth + 1)];
  });
  return [...new Set([...branches, ...items, ...inner])];
}

function isDescribed(schema: unknown): boolean {
  return isObject(schema) && typeof schema.description === "string" && schema.description.trim() !== "";
}
