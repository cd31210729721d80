import { DroverError, toError } from "../core/errors.ts";

/**
 * Any error of BullMQ or its client as one of ours. The client's errors carry the command with its arguments (whole
 * scripts, user data), so only the message is taken, and there is no cause.
 */
export function toQueueError(thrown: unknown): DroverError {
  if (thrown instanceof DroverError) return thrown;
  const { message } = toError(thrown);
  return new DroverError("queue_unavailable", `Redis did not take a queue command: ${message.slice(0, 300)}`);
}
