import ipaddr from "ipaddr.js";

/** How often somebody may fail to show a good key. */
export type Failures = {
  /** Counts one. True for the one after which the address must wait. */
  add(address: string | undefined): boolean;
  /** Seconds until the next try, 0 if there may be one now. */
  waitOf(address: string | undefined): number;
};

const maxFailures = 20;
const windowMs = 60_000;
const maxAddresses = 10_000;

/**
 * Counts failures per address, an IPv6 network of 64 bits being one. Own code, for what is kept stays bounded whatever
 * comes: the kept limiters for Node hold a timer per address and no upper limit of addresses.
 *
 * Keys cannot be guessed; this is so that guessing costs Redis and the log nothing. Each process counts for itself.
 */
export function createFailures(now: () => number = () => performance.now()): Failures {
  const byNetwork = new Map<string, { count: number; until: number }>();
  const find = (network: string): { count: number; until: number } | undefined => {
    const entry = byNetwork.get(network);
    return entry && entry.until > now() ? entry : undefined;
  };
  return {
    add(address) {
      const network = toNetwork(address);
      const entry = find(network) ?? { count: 0, until: now() + windowMs };
      entry.count += 1;
      // To the end, so that the first is who has been quiet for longest.
      byNetwork.delete(network);
      byNetwork.set(network, entry);
      const [oldest] = byNetwork.keys();
      if (byNetwork.size > maxAddresses && oldest !== undefined) byNetwork.delete(oldest);
      return entry.count === maxFailures;
    },
    waitOf(address) {
      const entry = find(toNetwork(address));
      return entry && entry.count >= maxFailures ? Math.max(1, Math.ceil((entry.until - now()) / 1000)) : 0;
    },
  };
}

/** Whoever has one address of an IPv6 network has 2^64 of them. */
function toNetwork(address: string | undefined): string {
  if (address === undefined || !ipaddr.isValid(address)) return "unknown";
  const parsed = ipaddr.process(address);
  if (parsed.kind() === "ipv4") return parsed.toString();
  return parsed.toByteArray().slice(0, 8).join(".");
}
