import { isEnded, type RunStatus } from "../../../src/core/run.ts";
import { createKeys, type Keys } from "../../../src/redis/keys.ts";
import { shardPrefixes } from "../../../src/sharding/slots.ts";
import { eventually } from "../../support/eventually.ts";
import type { World } from "../../support/world.ts";

/** Jobs end some milliseconds after their runs. */
const settleMs = 10_000;
const states: ReadonlySet<string> = new Set([
  "wait",
  "active",
  "paused",
  "prioritized",
  "delayed",
  "waiting-children",
  "completed",
  "failed",
]);

/** I4: jobs of ended runs in whichever queue and state, data of jobs that are in none, and runs that owe something. */
export async function remainsOf(world: World): Promise<string[]> {
  let left: string[] = [];
  const look = async (): Promise<true | undefined> => {
    const places = (await Promise.all(keysOf(world).map((keys) => placesUnder(world.redis, keys)))).flat();
    const over = await endedOf(world, new Set(places.map(({ runId }) => runId)));
    left = places.filter(({ runId }) => over.has(runId)).map(({ runId, place }) => `I4 ${runId}: is left in ${place}`);
    return left.length === 0 || undefined;
  };
  await eventually(look, settleMs).catch(() => {});
  return left;
}

type Place = { runId: string; place: string };

/** The keys of the installation, and of its shards if it has several. */
function keysOf({ keys, options: { shards = 1 } }: World): Keys[] {
  return shards === 1 ? [keys] : [keys, ...shardPrefixes(keys.prefix, shards).map((prefix) => createKeys(prefix))];
}

async function placesUnder(redis: World["redis"], keys: Keys): Promise<Place[]> {
  const owing = await redis.zrange(keys.owing, "0", "-1");
  return [...(await jobPlaces(redis, keys)), ...owing.map((runId) => ({ runId, place: "owing" }))];
}

/** Where jobs are named: in the lists of their queues, and by data of their own. */
async function jobPlaces(redis: World["redis"], keys: Keys): Promise<Place[]> {
  const prefix = `${keys.queuePrefix}:`;
  const places: Place[] = [];
  const pattern = `${prefix.replace(/[\\*?[\]]/g, "\\$&")}*`;
  for await (const page of redis.scanStream({ match: pattern, count: 1_000 })) {
    for (const key of page as string[]) {
      const [queue = "", name = ""] = key.slice(prefix.length).split(":");
      if (states.has(name)) {
        for (const jobId of await membersOf(redis, key))
          places.push({ runId: runIdOfJob(jobId), place: `${queue} ${name}` });
      } else if (queue === "runs" ? (await redis.hexists(key, "data").catch(() => 0)) === 1 : /^\d+-\d+-/.test(name)) {
        places.push({ runId: runIdOfJob(name), place: `${queue}, as data of ${name}` });
      }
    }
  }
  return places;
}

async function membersOf(redis: World["redis"], key: string): Promise<string[]> {
  if ((await redis.type(key)) === "list") return redis.lrange(key, 0, -1);
  return redis.zrange(key, "0", "-1");
}

/** A job is named `<owed at>-<index>-<run id>`; one of the `runs` queue by its run. */
function runIdOfJob(jobId: string): string {
  return jobId.replace(/^\d+-\d+-/, "");
}

async function endedOf(world: World, runIds: ReadonlySet<string>): Promise<Set<string>> {
  const over = new Set<string>();
  for (const runId of runIds) {
    for (const keys of keysOf(world)) {
      const status = await world.redis.hget(keys.run(runId).head, "status");
      if (status !== null && isEnded({ status: status as RunStatus })) over.add(runId);
    }
  }
  return over;
}
