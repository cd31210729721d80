// A process that owns a private Redis: `owner.ts DIR` prints one JSON line and runs until it is killed.
import { startEmbeddedRedis } from "../../src/embedded/redis.ts";

const redis = await startEmbeddedRedis({ dir: process.argv[2] ?? "" });
process.stdout.write(`${JSON.stringify({ url: redis.url, owned: redis.owned, serverPid: redis.serverPid })}\n`);
setInterval(() => {}, 60_000);
