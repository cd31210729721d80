import { readFileSync } from "node:fs";
import { Redis } from "ioredis";
import { inject } from "vitest";
import { z } from "zod";
import { hashSecret, makeKeyId, makeSecret, toApiKey } from "../../../src/api-keys.ts";
import { defineAgent } from "../../../src/define-agent.ts";
import { createDrover } from "../../../src/drover.ts";
import type { Scope, StoredKey } from "../../../src/ports.ts";
import { connect } from "../../../src/redis/connection.ts";
import { createRedisKeyStore } from "../../../src/redis/key-store.ts";
import { createKeys } from "../../../src/redis/keys.ts";
import { createSilentLogger } from "../../../src/telemetry/logger.ts";
import { scriptedModel } from "../../../src/testing/index.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { type CliProcess, startDrover } from "../../cli/run-drover.ts";
import { eventually } from "../eventually.ts";
import { sendRaw, toRequestText } from "../raw-http.ts";
import { deletePrefix, testPrefix } from "../redis.ts";

/** Largest body that the server under attack reads, in bytes, and how long a request may take to arrive, in ms. */
export const bodyLimit = 65_536;
export const timeoutMs = 2_000;

const keyNames = ["admin", "reader", "starter", "decider", "acme", "acmeAdmin", "beta", "expired", "removed"] as const;
type KeyName = (typeof keyNames)[number];

export type SignedIn = { cookie: string; csrf: string };

/** A server process over runs of two tenants that nobody works on, so that nothing changes by itself. */
export type Site = {
  port: number;
  process: CliProcess;
  /** The header that the holder of a key sends. */
  auth: Record<KeyName, string>;
  /** Ids of runs by tenant: one that waits for a person (at `call-1-1`), one that has ended. */
  runs: Record<"acme" | "beta" | "none", { waiting: string; ended: string }>;
  callId: string;
  /** Id of a response of the tenant beta; undefined without keys. */
  response: string | undefined;
  signIn(name: KeyName): Promise<SignedIn>;
  signOut(session: SignedIn): Promise<void>;
  /** All that is kept under the prefix, but for sign-ins. */
  snapshot(): Promise<Map<string, string>>;
  /** What the server process holds in memory, in MiB. */
  memoryMb(): number;
  stop(): Promise<void>;
};

const agents = [
  defineAgent({
    name: "clerk",
    instructions: "Act.",
    model: scriptedModel([{ toolCalls: [{ name: "pay", arguments: { what: "it" } }] }, "done"]),
    tools: [
      defineTool({
        name: "pay",
        description: "Pays.",
        parameters: z.object({ what: z.string() }),
        effect: "irreversible",
        execute: ({ what }) => what,
      }),
    ],
  }),
  defineAgent({ name: "echo", instructions: "Say.", model: scriptedModel(["done"]) }),
];

async function makeRuns(redis: string, prefix: string): Promise<Pick<Site, "runs" | "callId">> {
  const drover = createDrover({ redis, prefix, agents, logger: createSilentLogger() });
  try {
    await drover.work({ concurrency: 10 });
    const calls: string[] = [];
    const make = async (name: string, tenant?: string): Promise<{ waiting: string; ended: string }> => {
      const options = tenant === undefined ? {} : { tenant };
      const waiting = await drover.start("clerk", "hello", { runId: `${name}-waiting`, ...options });
      const ended = await drover.start("echo", "hello", { runId: `${name}-ended`, ...options });
      await ended.result({ timeoutMs: 20_000 });
      calls.push(await eventually(async () => (await waiting.status()).openCalls[0]?.callId));
      await eventually(async () => (await waiting.status()).status === "waiting" || undefined);
      return { waiting: waiting.id, ended: ended.id };
    };
    const runs = { acme: await make("acme", "acme"), beta: await make("beta", "beta"), none: await make("free") };
    return { runs, callId: calls[0] ?? "" };
  } finally {
    await drover.close();
  }
}

const rights: Record<KeyName, { scopes: Scope[]; tenant?: string; expiresAt?: number }> = {
  admin: { scopes: ["admin"] },
  reader: { scopes: ["read"] },
  starter: { scopes: ["start"] },
  decider: { scopes: ["decide"] },
  acme: { scopes: ["start", "read", "decide"], tenant: "acme" },
  acmeAdmin: { scopes: ["admin"], tenant: "acme" },
  beta: { scopes: ["start", "read", "decide"], tenant: "beta" },
  expired: { scopes: ["admin"], expiresAt: 1 },
  removed: { scopes: ["admin"] },
};

async function makeApiKeys(redis: string, prefix: string): Promise<Record<KeyName, string>> {
  const connection = connect(redis, { role: "producer" });
  try {
    const store = createRedisKeyStore({ connection, keys: createKeys(prefix) });
    const made = await Promise.all(
      keyNames.map(async (name) => {
        const secret = makeSecret();
        const key: StoredKey = { id: makeKeyId(), name, secretHash: hashSecret(secret), createdAt: 1, ...rights[name] };
        if (name !== "removed") await store.put(key);
        return [name, toApiKey(key.id, secret)] as const;
      }),
    );
    return Object.fromEntries(made) as Record<KeyName, string>;
  } finally {
    await connection.close();
  }
}

/** - `keys`: false for a server without any, as it is on loopback. */
export async function openSite({ keys: hasKeys }: { keys: boolean }): Promise<Site> {
  const redis = inject("redisUrl");
  const prefix = testPrefix();
  const { runs, callId } = await makeRuns(redis, prefix);
  const tokens = hasKeys
    ? await makeApiKeys(redis, prefix)
    : (Object.fromEntries(keyNames.map((name) => [name, "none"])) as Record<KeyName, string>);
  const server = startDrover(["serve"], {
    env: {
      REDIS_URL: redis,
      DROVER_PREFIX: prefix,
      DROVER_HTTP_PORT: "0",
      DROVER_HTTP_BODY_LIMIT: String(bodyLimit),
      DROVER_HTTP_TIMEOUT_MS: String(timeoutMs),
    },
  });
  const [, port = ""] = await server.untilOutput(/^serving http:\/\/127\.0\.0\.1:(\d+)/m);
  const client = new Redis(redis);
  const options = { port: Number(port) };
  const post = (path: string, headers: string[], fields: Record<string, string>): ReturnType<typeof sendRaw> => {
    const form = "Content-Type: application/x-www-form-urlencoded";
    const body = new URLSearchParams(fields).toString();
    return sendRaw(toRequestText({ method: "POST", path, headers: [form, ...headers], body }), options);
  };
  const asBeta = [`Authorization: Bearer ${tokens.beta}`, "Content-Type: application/json"];
  const body = '{"model":"echo","input":"secret-of-beta","background":true}';
  const made = await sendRaw(toRequestText({ method: "POST", path: "/v1/responses", headers: asBeta, body }), options);
  return {
    port: options.port,
    process: server,
    response: hasKeys ? /"id":"(resp_\w+)"/.exec(made.body)?.[1] : undefined,
    auth: Object.fromEntries(keyNames.map((name) => [name, `Authorization: Bearer ${tokens[name]}`])) as Site["auth"],
    runs,
    callId,
    async signIn(name) {
      const signedIn = await post("/login", [], { key: tokens[name] });
      const cookie = `Cookie: ${signedIn.headers.get("set-cookie")?.split(";")[0]}`;
      const page = await sendRaw(toRequestText({ path: "/", headers: [cookie, "Accept: text/html"] }), options);
      const csrf = /name="csrf" value="([^"]+)"/.exec(page.body)?.[1] ?? "";
      if (csrf === "") throw new Error(`${name} cannot sign in: ${signedIn.head}\n${page.head}`);
      return { cookie, csrf };
    },
    signOut: async ({ cookie, csrf }) => void (await post("/logout", [cookie], { csrf })),
    snapshot: () => snapshot(client, prefix),
    memoryMb: () =>
      Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${server.child.pid}/status`, "utf8"))?.[1]) / 1_024,
    async stop() {
      server.child.kill("SIGKILL");
      await server.ended;
      client.disconnect();
      await deletePrefix(redis, prefix);
    },
  };
}

async function snapshot(client: Redis, prefix: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for await (const names of client.scanStream({ match: `${prefix}*`, count: 1_000 })) {
    for (const name of names as string[]) {
      // Not what a request leaves: sign-ins, and a mark of BullMQ's workers that goes by itself.
      if (!/:web:[0-9a-f]{64}$|:(stalled|stray)-check$/.test(name)) found.set(name, await contentOf(client, name));
    }
  }
  return found;
}

/** Sorted where there is no order: a dump of a hash differs when the server rearranges it. */
async function contentOf(client: Redis, name: string): Promise<string> {
  const type = await client.type(name);
  if (type === "hash") return JSON.stringify(Object.entries(await client.hgetall(name)).sort());
  if (type === "zset") return JSON.stringify(await client.call("ZRANGE", name, "0", "-1", "WITHSCORES"));
  if (type === "list") return JSON.stringify(await client.lrange(name, 0, -1));
  if (type === "set") return JSON.stringify((await client.smembers(name)).sort());
  if (type === "stream") return JSON.stringify(await client.call("XRANGE", name, "-", "+"));
  return `${type} ${await client.get(name)}`;
}
