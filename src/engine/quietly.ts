import { toError } from "../core/errors.ts";
import type { Logger } from "../ports.ts";

/** Does work that something else makes good if it fails: a warning says what failed, and nobody is stopped by it. */
export async function quietly(
  logger: Logger,
  fields: Record<string, unknown>,
  what: string,
  work: () => Promise<unknown>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    logger.warn({ ...fields, error: toError(error).message }, what);
  }
}
