import { z } from "zod";

/** What an acknowledgement promises beyond what the primary has in its memory. All off by default. */
export type Durability = {
  /** On so many replicas it must be. As many as there are hold whichever is promoted. */
  replicas?: number | undefined;
  /** True: on the primary's disk. A number: on the disks of so many replicas as well. Needs Redis 7.2 and `appendonly`. */
  fsync?: boolean | number | undefined;
  /** How long to wait for it, in ms, before what was asked for is not acknowledged; default 1,000. */
  timeoutMs?: number | undefined;
};

export const durabilitySchema: z.ZodType<Durability, Durability> = z.strictObject({
  replicas: z.int().min(0).max(16).optional(),
  fsync: z.union([z.boolean(), z.int().min(0).max(16)]).optional(),
  timeoutMs: z.int().min(50).max(60_000).optional(),
});

const defaultDurabilityMs = 1_000;

/** How many servers are waited for; of disks, the primary's own and those of replicas. */
export type DurabilityTarget = {
  replicas: number;
  disks: { own: number; replicas: number } | undefined;
  timeoutMs: number;
};

/** Undefined if nothing is to be waited for. */
export function toDurabilityTarget({
  replicas = 0,
  fsync = false,
  timeoutMs,
}: Durability): DurabilityTarget | undefined {
  const disks = fsync === false ? undefined : { own: 1, replicas: fsync === true ? 0 : fsync };
  if (replicas === 0 && !disks) return undefined;
  return { replicas, disks, timeoutMs: timeoutMs ?? defaultDurabilityMs };
}
