import type { Cluster, Redis } from "ioredis";

/** What commands are sent on: to one server, or to a cluster, node by node. */
export type RedisClient = Redis | Cluster;
