import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startEmbeddedRedis } from "../../src/embedded/redis.ts";

/** The Redis an example works on: REDIS_URL, else a private one in a temporary folder that ends with this process. */
export async function findRedis(): Promise<string> {
  if (process.env.REDIS_URL) return process.env.REDIS_URL;
  const dir = mkdtempSync(join(tmpdir(), "drover-example-"));
  const { url } = await startEmbeddedRedis({ dir, log: console.error });
  process.once("exit", () => rmSync(dir, { recursive: true, force: true }));
  // Ctrl-C and SIGTERM would end it without an "exit".
  process.once("SIGINT", () => process.exit(130)).once("SIGTERM", () => process.exit(143));
  return url;
}
