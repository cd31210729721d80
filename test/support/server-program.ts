// A server process of the end-to-end tests: all of HTTP over the Redis and the prefix of the tests' workers. Tells on
// standard output, as one JSON object, where it listens.
import { createDroverServer } from "../../src/server/create-server.ts";
import { createLogger } from "../../src/telemetry/logger.ts";
import { readE2eOptions } from "./e2e-options.ts";

const { redisUrl: redis, prefix, logLevel } = readE2eOptions();
const http = { keyless: true, heartbeatMs: 1_000 };
const server = createDroverServer({ redis, prefix, http, logger: createLogger({ level: logLevel }) });
const { url } = await server.listen({ host: "127.0.0.1", port: 0 });
process.once("SIGTERM", () => void server.close());
process.stdout.write(`${JSON.stringify({ type: "ready", url })}\n`);
