import { lookup } from "node:dns/promises";
import { isIP, type LookupFunction } from "node:net";
import ipaddr from "ipaddr.js";
import { PermanentError } from "../../core/errors.ts";

/** An address a name stands for. */
export type Address = { address: string; family: 4 | 6 };

/** Finds all addresses of a name; rejects if there are none. */
export type Resolve = (hostname: string) => Promise<Address[]>;

/** The system's own resolution: hosts file and DNS. */
export const resolveBySystem: Resolve = async (hostname) => {
  const found = await lookup(hostname, { all: true });
  return found.map(({ address, family }) => ({ address, family: family === 6 ? 6 : 4 }));
};

/**
 * Whether an address belongs to the public internet. Private, loopback, link-local, carrier-grade NAT, multicast,
 * documentation, reserved and unassigned ones do not, nor does IPv6 that carries an IPv4 address in it (mapped, 6to4,
 * NAT64, Teredo), since what is inside decides where it leads.
 */
export function isPublicAddress(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.parse(address);
  if (parsed.range() !== "unicast") return false;
  // Of IPv6 only 2000::/3 is given out for global use.
  return parsed.kind() === "ipv4" || ((parsed.toByteArray()[0] ?? 0) & 0xe0) === 0x20;
}

/**
 * The addresses a connection to `hostname` may use. All of them must be public, unless private ones are allowed: a name
 * with one public and one private address is an attack or a mistake.
 */
export async function addressesOf(hostname: string, resolve: Resolve, allowPrivate: boolean): Promise<Address[]> {
  const literal = isIP(hostname);
  const found =
    literal === 0 ? await resolve(hostname) : [{ address: hostname, family: literal === 6 ? 6 : 4 } as const];
  if (found.length === 0) throw new PermanentError(`the host ${hostname} has no address`);
  if (!allowPrivate && !found.every(({ address }) => isPublicAddress(address))) {
    throw new PermanentError(`the host ${hostname} is not on the public internet, which is not allowed`);
  }
  return found;
}

/** A lookup that knows these addresses only: what was checked is what is connected to, whatever DNS says by then. */
export function pinnedLookup(addresses: readonly Address[]): LookupFunction {
  return (_hostname, options, callback) => {
    const [first] = addresses;
    if (options.all) callback(null, [...addresses]);
    else if (first) callback(null, first.address, first.family);
  };
}
