import type { RunStore } from "../ports.ts";
import type { RedisConnection } from "./connection.ts";
import type { Keys } from "./keys.ts";

/** Leases for work that one process of a fleet should do. */
export function createLeases({
  connection,
  keys,
}: {
  connection: RedisConnection;
  keys: Keys;
}): Pick<RunStore, "tryLease"> {
  return {
    async tryLease(name, ms, holder) {
      const key = keys.lease(name);
      const taken = await connection.use((client) => client.set(key, holder ?? "1", "PX", ms, "NX"));
      if (taken === "OK") return true;
      // One that lost its end, by a tool that copies data without times, would be held for ever.
      if ((await connection.use((client) => client.pttl(key))) === -1) {
        await connection.use((client) => client.pexpire(key, ms));
      }
      if (holder === undefined || (await connection.use((client) => client.get(key))) !== holder) return false;
      // If it expires right here, two may hold it for a time, as they may after a failover.
      return (await connection.use((client) => client.pexpire(key, ms))) === 1;
    },
  };
}
