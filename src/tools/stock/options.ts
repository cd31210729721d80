import type { z } from "zod";
import { DroverError } from "../../core/errors.ts";

/** Checks the options of a stock tool, all at once, and fills in the defaults. Throws DroverError "invalid". */
export function parseOptions<S extends z.ZodType>(tool: string, schema: S, options: unknown): z.output<S> {
  const parsed = schema.safeParse(options);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(({ path, message }) => [...path, message].join(": "));
  throw new DroverError("invalid", `The options of ${tool} cannot be used: ${problems.join("; ")}.`);
}
