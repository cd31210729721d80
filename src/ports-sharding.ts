import type { FeedEntry } from "./core/event.ts";
import type { Message } from "./core/message.ts";
import type { EndedStatus } from "./core/retention.ts";
import type { Run } from "./core/run.ts";
import type { RunStore } from "./ports.ts";

/**
 * Where a run is that does not live in the shard its id belongs to, kept in that shard: `shard`, and the `claim`, a token
 * by which the right to create it there can be taken back.
 */
export type Pointer = { shard: number; claim: string };

export type Created = { created: true } | { created: false; run: Run };

/** The runs of one shard, with what lets an id be taken once over all shards. See `createShardedRunStore`. */
export type ShardStore = RunStore & {
  /** Whether the run is in this shard, else where its pointer leads. Of a run that belongs here by its id. */
  whereIs(runId: string): Promise<"here" | Pointer | null>;
  /** Like `create`, in the shard that the id belongs to: not if a pointer leads elsewhere, which is then given back. */
  createUnclaimed(run: Run, messages: Message[], entries: FeedEntry[]): Promise<Created | { elsewhere: Pointer }>;
  /** Like `create`, in the shard that the claim names: not once that was made void. */
  createClaimed(
    run: Run,
    messages: Message[],
    entries: FeedEntry[],
    claim: string,
  ): Promise<Created | { isVoid: true }>;
  /** Keeps a pointer unless the run is here or another pointer is. @returns what holds the id now */
  point(runId: string, to: Pointer): Promise<"here" | Pointer>;
  /** Puts another pointer in the place of this one, or none. False if it was not there any more. */
  movePointer(runId: string, from: Pointer, to: Pointer | null): Promise<boolean>;
  /** Lets no run be created here under the claim. False if the run is here already. */
  makeVoid(runId: string, claim: string): Promise<boolean>;
  /** Like `owing`, with since when each owes something, epoch ms. */
  owingSince(before: number, limit: number): Promise<{ runId: string; since: number }[]>;
  /** How many runs `removeEnded` would come to look at in all. */
  countEnded(status: EndedStatus, before: number): Promise<number>;
};
