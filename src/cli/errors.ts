import { DroverError, toError } from "../core/errors.ts";

/** An error as one clear statement: ours as it is, with what to do; anything else is named as unexpected. */
export function toStatement(thrown: unknown): string {
  const error = toError(thrown);
  if (isOurs(error)) return error.message;
  return `something unexpected failed: ${error.message} (DROVER_LOG_LEVEL=debug shows where)`;
}

/** The code programs can switch on. */
export function toCode(thrown: unknown): string {
  const error = toError(thrown);
  return isOurs(error) ? error.code : "unexpected";
}

/** By name and code: an agents file may bring a copy of this package of its own. */
function isOurs(error: Error): error is DroverError {
  return error instanceof DroverError || (error.name === "DroverError" && "code" in error);
}
