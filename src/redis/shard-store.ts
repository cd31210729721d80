import { z } from "zod";
import { DamagedRecord } from "../core/errors.ts";
import type { FeedEntry } from "../core/event.ts";
import type { Message } from "../core/message.ts";
import type { Run } from "../core/run.ts";
import type { CommitResult } from "../ports.ts";
import type { Created, Pointer, ShardStore } from "../ports-sharding.ts";
import { type CommitInput, toCommitArguments } from "./commit-plan.ts";
import { maxPage, runScript, scoreOf, toFields } from "./read.ts";
import { decodeHead } from "./run-codec.ts";
import { createRedisRunStore, type RedisRunStoreOptions } from "./run-store.ts";
import { guardedCreateScript, makeVoidScript, movePointerScript, pointScript } from "./shard-scripts.ts";
import { whetherMade } from "./whether-made.ts";

/** A creator that was slow finds its claim void for so long. */
const voidForMs = 3_600_000;

/** One shard of an installation with several. Contract: `ShardStore`. */
export function createRedisShardStore(options: RedisRunStoreOptions): ShardStore {
  const { connection, keys } = options;

  /** @returns what the guard holds, if it is there */
  async function createGuarded(creation: Creation, guard: string): Promise<Created | { guard: string }> {
    const { run, messages, entries } = creation;
    const append = messages.map((message) => ({ type: "message" as const, message }));
    let previous: Run | null = null;
    for (;;) {
      const result = await send(options, { previous, run, append, results: [], entries, fresh: true }, guard);
      if ("guard" in result) return result;
      if (result.committed) return { created: true };
      previous = result.run;
      if (previous && previous.status !== "rejected") return { created: false, run: previous };
    }
  }

  return {
    ...createRedisRunStore(options),

    ...createPointers(options),

    async createUnclaimed(run, messages, entries) {
      const result = await createGuarded({ run, messages, entries }, keys.run(run.runId).pointer);
      return "guard" in result ? { elsewhere: decodePointer(run.runId, result.guard) } : result;
    },

    async createClaimed(run, messages, entries, claim) {
      const result = await createGuarded({ run, messages, entries }, keys.run(run.runId).voided(claim));
      return "guard" in result ? { isVoid: true } : result;
    },

    async owingSince(before, limit) {
      const count = Math.min(limit, maxPage);
      if (count < 1) return [];
      const flat = await connection.use((client) =>
        client.zrangebyscore(keys.owing, "-inf", `(${before}`, "WITHSCORES", "LIMIT", 0, count),
      );
      return Object.entries(toFields(flat)).map(([runId, since]) => ({ runId, since: scoreOf(since) }));
    },

    countEnded: (status, before) => connection.use((client) => client.zcount(keys.ended(status), "-inf", `(${before}`)),
  };
}

async function send(
  { connection, keys }: Pick<RedisRunStoreOptions, "connection" | "keys">,
  input: CommitInput,
  guard: string,
): Promise<CommitResult | { guard: string }> {
  const plan = toCommitArguments(keys, input);
  const guarded = { ...plan, keys: [...plan.keys, guard] };
  let reply: (string | number)[];
  try {
    reply = await connection.use((client) => runScript(client, guardedCreateScript, guarded));
  } catch (error) {
    return await whetherMade({ connection, keys }, input, error);
  }
  const [code, ...rest] = reply;
  const { runId } = input.run;
  if (code === -2) return { guard: String(rest[0]) };
  if (code === 1 || code === 2) return { committed: true };
  if (code === 0) return { committed: false, run: decodeHead(runId, toFields(rest)) };
  throw new DamagedRecord(`run ${runId}`, `what its creation needs is not there: ${rest.join(" ")}`);
}

/** Where runs are that do not live where their ids belong; see `createShardedRunStore`. */
function createPointers({
  connection,
  keys,
}: Pick<RedisRunStoreOptions, "connection" | "keys">): Pick<
  ShardStore,
  "whereIs" | "point" | "movePointer" | "makeVoid"
> {
  return {
    async whereIs(runId) {
      const { head, pointer } = keys.run(runId);
      const [isHere, held] = await connection.use((client) => Promise.all([client.exists(head), client.get(pointer)]));
      if (isHere === 1) return "here";
      return held === null ? null : decodePointer(runId, held);
    },

    async point(runId, to) {
      const { head, pointer } = keys.run(runId);
      const input = { keys: [head, pointer], args: [encodePointer(to)] };
      const [held] = await connection.use((client) => runScript(client, pointScript, input));
      return held === undefined ? "here" : decodePointer(runId, String(held));
    },

    async movePointer(runId, from, to) {
      const input = { keys: [keys.run(runId).pointer], args: [encodePointer(from), to ? encodePointer(to) : ""] };
      const [moved] = await connection.use((client) => runScript(client, movePointerScript, input));
      return moved === 1;
    },

    async makeVoid(runId, claim) {
      const { head, voided } = keys.run(runId);
      const input = { keys: [head, voided(claim)], args: [voidForMs] };
      const [made] = await connection.use((client) => runScript(client, makeVoidScript, input));
      return made === 1;
    },
  };
}

type Creation = { run: Run; messages: Message[]; entries: FeedEntry[] };

const pointerSchema = z.object({ shard: z.coerce.number().int().min(0), claim: z.string().min(1) });

function encodePointer({ shard, claim }: Pointer): string {
  return `${shard} ${claim}`;
}

function decodePointer(runId: string, stored: string): Pointer {
  const [shard, claim] = stored.split(" ");
  const parsed = pointerSchema.safeParse({ shard, claim });
  // Without it the run is looked for in every shard, and found.
  if (!parsed.success) throw new DamagedRecord(`pointer :r:run:${runId}:at`, "the shard of a run cannot be read");
  return parsed.data;
}
