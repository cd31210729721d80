import type { Redis } from "ioredis";

/** What a Redis has done since it was started. */
export type Traffic = { commands: number; bytes: number; cpuMs: number };

/** Commands count those inside scripts too; `bytes` is what went over the network, both ways. */
export async function readTraffic(redis: Redis): Promise<Traffic> {
  const info = await redis.info("all");
  const number = (name: string): number => Number(new RegExp(`^${name}:([\\d.]+)`, "m").exec(info)?.[1] ?? 0);
  const calls = [...info.matchAll(/^cmdstat_[^:]+:calls=(\d+)/gm)];
  return {
    commands: calls.reduce((sum, [, count]) => sum + Number(count), 0),
    bytes: number("total_net_input_bytes") + number("total_net_output_bytes"),
    cpuMs: (number("used_cpu_user") + number("used_cpu_sys")) * 1_000,
  };
}
