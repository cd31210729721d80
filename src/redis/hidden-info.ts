import { isRefusal } from "./redis-error.ts";
import type { RedisClient } from "./redis-target.ts";

/** The oldest server that is supported, so that nothing is tried which only a newer one can. */
const least = "redis_version:6.2.0\r\n";

type Callback = (error: Error | null, text?: string) => void;

/**
 * Lets a client work on a host that refuses INFO. The client library asks for it when it connects and BullMQ before its
 * first command, both without arguments, and neither gets over a refusal. INFO with a section is passed on as it is.
 */
export function tolerateHiddenInfo(client: RedisClient): void {
  const info = client.info.bind(client) as (...args: unknown[]) => Promise<string>;
  const answer = async (): Promise<string> => {
    try {
      return await info();
    } catch (error) {
      if (isRefusal(error)) return least;
      throw error;
    }
  };
  const tolerant = (first?: unknown, ...rest: unknown[]): Promise<string> => {
    if (typeof first === "string") return info(first, ...rest);
    const text = answer();
    if (typeof first === "function") {
      const callback = first as Callback;
      text.then(
        (told) => callback(null, told),
        (error: Error) => callback(error),
      );
    }
    return text;
  };
  client.info = tolerant as typeof client.info;
}
