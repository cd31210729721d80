import type { Redis } from "ioredis";

/**
 * Lets a client's commands of one turn of the event loop leave in one system call. A busy worker sends many at once, and
 * a call for each is the greatest part of what they cost. Nothing waits for it: what was written leaves before the
 * process does anything else.
 */
export function batchWrites(client: Redis): void {
  client.on("connect", () => {
    const { stream } = client;
    // The library listens once more for each refused command that makes it connect anew: as many as are on their way.
    stream.setMaxListeners(0);
    const write = stream.write.bind(stream) as (...args: unknown[]) => boolean;
    let corked = false;
    const flush = (): void => {
      corked = false;
      stream.uncork();
    };
    stream.write = (...args: unknown[]) => {
      if (!corked) {
        corked = true;
        stream.cork();
        process.nextTick(flush);
      }
      return write(...args);
    };
  });
}
