import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import type { DurabilityTarget } from "../core/durability.ts";
import { DroverError } from "../core/errors.ts";
import type { Durable, Logger } from "../ports.ts";
import { connect, createDampedWarning, type RedisConnection, type RedisTarget, within } from "./connection.ts";
import type { Keys } from "./keys.ts";
import { redisErrorCode } from "./redis-error.ts";
import { isCluster } from "./redis-target.ts";

export type RedisDurableOptions = {
  redis: RedisTarget;
  target: DurabilityTarget;
  /** The keys of the shard that a run is in. */
  keysOf: (run: Parameters<Durable["confirm"]>[0]) => Keys;
  logger?: Logger | undefined;
};

/** A head that was committed, and what became of it. */
type Asked = { head: string; revision: number; token: string; tell(state: State): void };
/** `kept`: it is safe. `gone`: the server that answers does not have it. `again`: not yet. `unfit`: it cannot be asked. */
type State = "kept" | "gone" | "again" | "unfit";

/** A blocked WAIT holds up those who ask meanwhile: no single one is longer. */
const waitMs = 200;
/** How long a round waits for the connection. */
const readyMs = 250;
/** The most heads in one round. */
const roundSize = 500;
const pauseMs = 50;

/**
 * WAIT counts only what was written on its own connection, and says yes at once to one that has written nothing: after a
 * failover, say. So each round looks, on a connection that does nothing else, whether the server still has what was
 * committed, writes a little, and waits for that: replication is in order, so all that was found comes before it. A round
 * during which the connection was lost says nothing. Those who ask while a round is under way share the next one.
 */
export function createRedisDurable(options: RedisDurableOptions): Durable & { close(): Promise<void> } {
  const { redis, target, keysOf, logger } = options;
  const connection = connect(redis, { role: "producer", logger, name: "drover-durability" });
  const warn = createDampedWarning(logger);
  const rounds = new Map<string, ReturnType<typeof createRounds>>();

  function roundsOf(marker: string): ReturnType<typeof createRounds> {
    const known = rounds.get(marker) ?? createRounds((asked) => round(connection, marker, { target, asked, warn }));
    rounds.set(marker, known);
    return known;
  }

  return {
    timeoutMs: target.timeoutMs,
    async confirm(run, signal) {
      const keys = keysOf(run);
      const until = performance.now() + target.timeoutMs;
      const head = keys.run(run.runId).head;
      for (;;) {
        const state = await roundsOf(keys.lease("durability")).ask({ head, revision: run.revision, token: run.token });
        if (state === "kept") return;
        if (state === "gone") throw lost(run.runId);
        if (state === "unfit") throw unfit();
        if (signal?.aborted || performance.now() >= until) throw notYet(run.runId, target);
        await sleep(pauseMs);
      }
    },
    close: () => connection.close(),
  };
}

function lost(runId: string): DroverError {
  return new DroverError(
    "queue_unavailable",
    `What was done to run "${runId}" was lost before it was safe: Redis has failed over meanwhile. Do the same again.`,
  );
}

function unfit(): DroverError {
  const message = 'durability.fsync needs Redis 7.2 or later with "appendonly yes". Upgrade it, or leave fsync out.';
  return new DroverError("unsupported", message);
}

function notYet(runId: string, { replicas, disks, timeoutMs }: DurabilityTarget): DroverError {
  const where = [
    ...(replicas > 0 ? [`on ${replicas} replica${replicas === 1 ? "" : "s"}`] : []),
    ...(disks ? ["on disk"] : []),
  ].join(" and ");
  return new DroverError(
    "queue_unavailable",
    `What was done to run "${runId}" is not ${where} after ${timeoutMs} ms, so it is not acknowledged: Redis could still lose it. ` +
      "Look after its replicas, then do the same again; it is done once.",
  );
}

/** One round at a time, for all who wait when it begins. */
function createRounds(go: (asked: Asked[]) => Promise<State[]>): {
  ask(head: Omit<Asked, "tell">): Promise<State>;
} {
  let waiting: Asked[] = [];
  let going = false;

  async function run(): Promise<void> {
    going = true;
    while (waiting.length > 0) {
      const asked = waiting.slice(0, roundSize);
      waiting = waiting.slice(roundSize);
      const states = await go(asked);
      for (const [index, { tell }] of asked.entries()) tell(states[index] ?? "again");
    }
    going = false;
  }

  return {
    ask: (head) =>
      new Promise((tell) => {
        waiting.push({ ...head, tell });
        // What is asked for in the same turn of the event loop goes together.
        if (!going) queueMicrotask(() => void (going || run()));
      }),
  };
}

type Round = { target: DurabilityTarget; asked: Asked[]; warn: ReturnType<typeof createDampedWarning> };

async function round(connection: RedisConnection, marker: string, { target, asked, warn }: Round): Promise<State[]> {
  try {
    const { found, safe } = await within(lookAndWait(connection, marker, { target, asked }), 2 * waitMs + readyMs);
    return found.map((one) => {
      if (one !== 1) return "gone";
      return safe ? "kept" : "again";
    });
  } catch (error) {
    const code = redisErrorCode(error);
    if (code === "ERR" && /WAITAOF/i.test(String(error))) return asked.map(() => "unfit");
    warn(code, { code }, "could not ask whether replicas have what was committed");
    return [];
  }
}

async function lookAndWait(
  connection: RedisConnection,
  marker: string,
  { target, asked }: Omit<Round, "warn">,
): Promise<{ found: number[]; safe: boolean }> {
  const node = await nodeOf(connection, marker);
  let isSame = true;
  const onClose = (): void => {
    isSame = false;
  };
  node.once("close", onClose);
  try {
    // They leave together, so nothing comes between them on this connection.
    const [found, safe] = await Promise.all([look(node, marker, asked), isSafe(node, target)]);
    if (!isSame) throw new Error("Connection is closed.");
    return { found, safe };
  } finally {
    node.off("close", onClose);
  }
}

/**
 * Which heads are as they were committed, or have gone on since, and a write.
 *
 * KEYS: 1 what is written, then the heads. ARGV: revision and token of each.
 */
const lookScript = `
local found = {}
for i = 2, #KEYS do
  local stored = redis.call('HMGET', KEYS[i], 'rev', 'tok')
  local rev, wanted = tonumber(stored[1] or ''), tonumber(ARGV[2 * i - 3])
  local has = rev and (rev > wanted or (rev == wanted and stored[2] == ARGV[2 * i - 2]))
  found[i - 1] = has and 1 or 0
end
redis.call('SET', KEYS[1], '1', 'PX', 60000)
return found
`;

/** By its text: were it not known by its hash, it would be sent again after the WAIT that is to cover it. */
async function look(node: Redis, marker: string, asked: Asked[]): Promise<number[]> {
  const keys = [marker, ...asked.map(({ head }) => head)];
  const args = asked.flatMap(({ revision, token }) => [revision, token]);
  return (await node.eval(lookScript, keys.length, ...keys, ...args)) as number[];
}

async function isSafe(node: Redis, { replicas, disks }: DurabilityTarget): Promise<boolean> {
  const [copies, written] = await Promise.all([
    replicas > 0 ? node.wait(replicas, waitMs) : undefined,
    disks ? (node.call("WAITAOF", disks.own, disks.replicas, waitMs) as Promise<[number, number]>) : undefined,
  ]);
  const copied = copies === undefined || copies >= replicas;
  return copied && (!disks || !written || (written[0] >= disks.own && written[1] >= disks.replicas));
}

/** The server that has this key. Its connection is not one that comes back by itself to another server. */
async function nodeOf(connection: RedisConnection, marker: string): Promise<Redis> {
  await connection.ready(readyMs);
  const { client } = connection;
  if (!isCluster(client)) return client;
  // Through the cluster's client first: it follows the key to the node that has it now.
  const [slot] = await Promise.all([client.cluster("KEYSLOT", marker), client.exists(marker)]);
  const address = client.slots[slot as number]?.[0];
  const node = client.nodes("master").find(({ options: { host, port } }) => `${host}:${port}` === address);
  if (!node) throw new Error("Cluster isn't ready: the node of a slot is not known");
  return node;
}
