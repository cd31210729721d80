// An id is one run's over all shards.
//
// A run of a session lives in the session's shard (its home), and its id may belong to another one. There a pointer says
// where it is. These hold:
// P1. In the shard of an id are the run or a pointer, never both: each is written only if the other is not there.
// P2. Away from it a run is created only under the claim of the pointer, and not once that claim was made void.
// P3. A pointer is replaced or removed only after its claim was made void in the shard it names, which is refused if the
//     run is there.
// So whoever dies between two of these writes leaves a pointer to nothing: harmless, and the next start of that id goes
// on from it or takes its place. A void claim is kept for a while, for a creator that was slow.

import type { FeedEntry } from "../core/event.ts";
import type { Message } from "../core/message.ts";
import type { Run } from "../core/run.ts";
import type { Damage } from "../ports.ts";
import type { Created, Pointer } from "../ports-sharding.ts";
import type { Placement } from "./placement.ts";

export type Creation = { run: Run; messages: Message[]; entries: FeedEntry[] };

type Deps = { placement: Placement; token: () => string; pause: (ms: number) => Promise<unknown> };

/** Whoever points somewhere is about to create the run there; it is given that long before its claim is made void. */
const creatorsTimeMs = 250;

/** Creates the run in its home unless its id is taken anywhere. */
export async function createInShards(deps: Deps, creation: Creation): Promise<Created> {
  const { placement } = deps;
  const { run } = creation;
  const isAway = placement.home(run) !== placement.of(run.runId);
  for (;;) {
    const result = isAway ? await createAway(deps, creation) : await createAtOwn(deps, creation);
    if (!result) continue;
    if (result.created) placement.learn(run.runId, placement.home(run));
    else placement.learn(result.run.runId, placement.home(result.run));
    return result;
  }
}

/** Undefined: things have changed meanwhile; once more. */
async function createAtOwn(deps: Deps, { run, messages, entries }: Creation): Promise<Created | undefined> {
  const { placement } = deps;
  const result = await placement.store(placement.of(run.runId)).createUnclaimed(run, messages, entries);
  return "elsewhere" in result ? holderOf(deps, run.runId, result.elsewhere, null) : result;
}

async function createAway(deps: Deps, { run, messages, entries }: Creation): Promise<Created | undefined> {
  const { placement, token } = deps;
  const { runId } = run;
  const own = placement.store(placement.of(runId));
  const home = placement.home(run);
  const held = await own.point(runId, { shard: home, claim: token() });
  if (held === "here") {
    const other = await own.load(runId);
    if (other && other.status !== "rejected") return { created: false, run: other };
    // A rejected record does not hold its id.
    if (other) await own.remove(other);
    return undefined;
  }
  if (held.shard !== home) return holderOf(deps, runId, held, { shard: home, claim: token() });
  const result = await placement.store(home).createClaimed(run, messages, entries, held.claim);
  if (!("isVoid" in result)) return result;
  await own.movePointer(runId, held, { shard: home, claim: token() });
  return undefined;
}

/** The run that a pointer leads to. If it is not there, and does not come, `next` takes the pointer's place. */
async function holderOf(
  { placement, pause }: Deps,
  runId: string,
  pointer: Pointer,
  next: Pointer | null,
): Promise<Created | undefined> {
  const there = placement.store(pointer.shard);
  const run = (await there.load(runId)) ?? (await pause(creatorsTimeMs).then(() => there.load(runId)));
  if (run) return { created: false, run };
  if (await there.makeVoid(runId, pointer.claim)) {
    await placement.store(placement.of(runId)).movePointer(runId, pointer, next);
  }
  return undefined;
}

/** Removes the run, and the pointer to it. */
export async function removeFromShards(placement: Placement, run: Run): Promise<boolean> {
  const home = placement.home(run);
  const isGone = await placement.store(home).remove(run);
  if (isGone) await releasePointer(placement, run.runId, home);
  return isGone;
}

/** The same for a damaged one. Of a run without a head, what is left may be in any shard. */
export async function removeDamagedFromShards(placement: Placement, runId: string): Promise<Damage | null> {
  const { stores, store, find, forget } = placement;
  const home = await find(runId);
  for (const shard of home === undefined ? stores.keys() : [home]) {
    const damage = await store(shard).removeDamaged(runId);
    if (!damage) continue;
    forget(runId);
    await releasePointer(placement, runId, shard);
    return damage;
  }
  return null;
}

/** Removes the pointer to a run that was removed from that shard, unless it was made anew there. */
export async function releasePointer({ store, of }: Placement, runId: string, shard: number): Promise<void> {
  const own = of(runId);
  if (own === shard) return;
  const where = await store(own).whereIs(runId);
  if (where === null || where === "here" || where.shard !== shard) return;
  if (await store(shard).makeVoid(runId, where.claim)) await store(own).movePointer(runId, where, null);
}
