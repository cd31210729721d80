import type { TestProject } from "vitest/node";
import { startTestRedis } from "./redis.ts";

/** Starts the one Redis that the tests of a run share, and says which it is. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const redis = await startTestRedis();
  project.provide("redisUrl", redis.url);
  process.stdout.write(`Redis for tests: ${redis.kind}\n`);
  return () => redis.stop();
}
