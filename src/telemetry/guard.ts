import { toError } from "../core/errors.ts";
import type { Logger } from "../ports.ts";

/**
 * Runs telemetry so that its trouble stays its own: undefined instead of an error, one line for the first.
 *
 * @param message what that line says.
 */
export function createGuard(logger: Logger, message: string): <T>(attempt: () => T) => T | undefined {
  let told = false;
  return (attempt) => {
    try {
      return attempt();
    } catch (thrown) {
      if (!told) logger.warn({ error: toError(thrown).message }, message);
      told = true;
      return undefined;
    }
  };
}
