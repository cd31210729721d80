import { PassThrough } from "node:stream";
import { Cluster, type Redis } from "ioredis";
import type { RedisCluster } from "../../support/redis-cluster.ts";

/** A plain client to a cluster for looks that were written for one server: a scan goes over all nodes. */
export function openClusterClient({ nodes }: RedisCluster): Redis {
  const client = new Cluster(
    nodes.map(({ port }) => ({ host: "127.0.0.1", port })),
    { redisOptions: { replyMapping: "legacy" } },
  );
  client.on("error", () => {});
  const scanStream: Redis["scanStream"] = (options) => {
    const pages = new PassThrough({ objectMode: true });
    const scan = async (): Promise<void> => {
      for (const node of client.nodes("master")) for await (const page of node.scanStream(options)) pages.write(page);
      pages.end();
    };
    scan().catch((error: Error) => pages.destroy(error));
    return pages as unknown as ReturnType<Redis["scanStream"]>;
  };
  return Object.assign(client, { scanStream }) as unknown as Redis;
}
