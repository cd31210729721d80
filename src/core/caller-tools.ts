// The tools that a caller brings with a start: checked as data, never executed here.

import { z } from "zod";
import type { ToolSpec } from "./agent.ts";
import { readResultName } from "./result.ts";

const mostTools = 128;
/** A deeper schema could not be walked through safely by whoever checks arguments by it. */
const deepest = 32;

const nameSchema = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,64}$/, "must be 1 to 64 letters, digits, '-' or '_'")
  .refine((name) => name !== readResultName, `must not be ${readResultName}, which is Drover's own`);

const parametersSchema = z
  .looseObject({ type: z.literal("object", 'must be "object": models send named arguments') })
  .refine((schema) => isPlainJson(schema, deepest), `must be JSON, nested at most ${deepest} deep`);

const specSchema: z.ZodType<ToolSpec> = z.strictObject({
  name: nameSchema,
  description: z.string(),
  parameters: parametersSchema,
});

/** At most 128 tools, each with a name of its own. */
export const callerToolsSchema: z.ZodType<ToolSpec[]> = z
  .array(specSchema)
  .max(mostTools, `must be at most ${mostTools} tools`)
  .superRefine((tools, context) => {
    const first = new Map<string, number>();
    tools.forEach(({ name }, index) => {
      if (first.has(name)) {
        const message = `must be unique: tool ${first.get(name)} has the name ${name} too`;
        context.addIssue({ code: "custom", path: [index, "name"], message });
      } else first.set(name, index);
    });
  });

/** Whether a value is nothing but JSON, and its lists and objects are nested at most so deep. */
function isPlainJson(value: unknown, depth: number): boolean {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true;
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || depth === 0) return false;
  return Object.values(value).every((inner) => isPlainJson(inner, depth - 1));
}

/** Names that a caller's tools share with others; a model could not tell two tools of one name apart. */
export function sharedNames(tools: readonly ToolSpec[], isTaken: (name: string) => boolean): string[] {
  return tools.map(({ name }) => name).filter(isTaken);
}
