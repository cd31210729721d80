import { onTestFinished } from "vitest";
import { hashSecret, makeKeyId, makeSecret, toApiKey } from "../../src/api-keys.ts";
import { scopes } from "../../src/ports-operators.ts";
import { createDroverServer, type DroverServer } from "../../src/server.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";

/** A server over real Redis on a real port, with one key that may do everything. Ends with the test. */
export async function startHttpServer(given: { redis: string; prefix: string }): Promise<{
  server: DroverServer;
  url: string;
  key: string;
}> {
  const id = makeKeyId();
  const secret = makeSecret();
  const staticKeys = [{ id, name: "ann", scopes: [...scopes], secretHash: hashSecret(secret), createdAt: 1 }];
  const server = createDroverServer({ ...given, logger: createSilentLogger(), http: { staticKeys, heartbeatMs: 500 } });
  onTestFinished(() => server.close());
  const { url } = await server.listen();
  return { server, url, key: toApiKey(id, secret) };
}
