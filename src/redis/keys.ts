import { defaultPrefix } from "../core/defaults.ts";
import { runStatuses } from "../core/run.ts";

/** Keys of one run. */
export type RunKeys = {
  /** Hash: everything that decides what the run does next. */
  head: string;
  /** List: the transcript, append-only; each entry is `<token of its commit> <JSON>`. */
  messages: string;
  /** Hash: results that came before the others of their turn, by call id. */
  results: string;
  /** Hash: what was cut out of results for the model, in pieces; see `createOutputs`. */
  outputs: string;
  /** List: what was committed, entry N at index N - 1. A stream for runs of older versions; see `commitScript`. */
  feed: string;
  /** Stream: text as it arrives; dropped some minutes after the end. */
  live: string;
  /** String, with several shards: the run lives in another one than its id belongs to, `<shard> <claim>`. */
  pointer: string;
  /** String, with several shards: no run may be created under that claim any more; expires. */
  voided(claim: string): string;
  /** Pub/sub channel: something happened to the run. */
  channel: string;
  /** Pub/sub channel: the run has ended. */
  ended: string;
};

/** Keys of one session. */
export type SessionKeys = {
  /** List: the transcript that its runs share, like a run's own. */
  messages: string;
  /** List: who is in line, `<round>:<run id>`; the first is active, or about to be. Changed by commits of its runs. */
  line: string;
  /** Hash: what became of inputs given to whichever run is active, by their ids: see `claimInputScript`. */
  inputs: string;
};

/** Keys of one limit that holds over the whole fleet; see `gate-scripts.ts`. All expire by themselves. */
export type GateKeys = {
  /** Hash, and sorted sets of places in time, of places inside and of the line; in the scripts' order. */
  all: string[];
  leases: string;
  /** String: the breaker's state. */
  breaker: string;
  /** String: until when the provider asked to be left alone, epoch ms. */
  pause: string;
};

/** Keys of what workers tell of themselves. */
export type PresenceKeys = {
  /** Sorted set of worker ids, scored by until when they count as there (epoch ms). */
  until: string;
  /** Hash: what each told last, by worker id. */
  told: string;
  /** Hash: agents by name; they stay. */
  agents: string;
};

/** Keys of one answer of the Responses endpoint. */
export type ResponseKeys = {
  /** Hash: the record, and how many events it has had. */
  head: string;
  /** Stream: its events; the id of number N is `<N + 1>-0`. */
  events: string;
};

/** Every name Drover's records have in Redis. All share the hash slot of the prefix; channels have none. */
export type Keys = {
  prefix: string;
  /** BullMQ's prefix. Nothing of ours lives under it. */
  queuePrefix: string;
  run(runId: string): RunKeys;
  session(session: string): SessionKeys;
  /** The list that holds a transcript, as `transcriptOf` names it. */
  transcript(name: string): string;
  /** Sorted set of runs that owe something, scored by since when (epoch ms). */
  owing: string;
  /** Sorted sets for listing; all scores are 0 and members order by creation, see `listMember`. */
  /** Only of runs for readers before 5, who list all by it; the sets by status have every run once. */
  listAll: string;
  listsByStatus: string[];
  listByStatus(status: string): string;
  listByAgent(agent: string): string;
  listBySession(session: string): string;
  listByTenant(tenant: string): string;
  /** Hashes of how many runs there are, by `<status> <agent>`: of everybody's runs, and of one tenant's. */
  counts: string;
  countsOfTenant(tenant: string): string;
  /** Sorted sets of runs that have ended, by status, scored by when (epoch ms): what retention goes by. */
  ended(status: string): string;
  /** Sorted set of sessions that have no run, scored by since when (epoch ms). */
  idleSessions: string;
  definition(hash: string): string;
  /** Sorted set of their hashes, scored by when a process put each there last (epoch ms). */
  definitionsPut: string;
  gate(key: string): GateKeys;
  presence: PresenceKeys;
  /** Hash: keys for HTTP, by id. */
  accessKeys: string;
  /** String: somebody signed in to the pages; expires. */
  webSession(idHash: string): string;
  response(id: string): ResponseKeys;
  /** Sorted set of them, scored by when each is to be looked at for removal, not before its run's age (epoch ms). */
  responses: string;
  /** Held by the process that does what the name says; expires by itself. */
  lease(name: string): string;
  /** Pub/sub channel: a run was changed from outside its steps. */
  control: string;
  /** String: who paused the fleet, when and why; not there while it is not paused. */
  fleetPause: string;
  /** String: the number of shards that the installation has. */
  shards: string;
};

/**
 * Names of everything under `prefix`, which should hold a hash tag (`{...}`): on a Redis Cluster it must, since one
 * script touches several keys.
 *
 * @param channels prefix of the channels, if another one: shards share theirs, so that whoever listens to a run need not
 *   know where it is.
 */
export function createKeys(prefix: string = defaultPrefix, channels: string = prefix): Keys {
  const ours = `${prefix}:r`;
  const run = (runId: string): RunKeys => {
    const base = `${ours}:run:${runId}`;
    const channel = `${channels}:r:run:${runId}`;
    return {
      head: base,
      messages: `${base}:messages`,
      results: `${base}:results`,
      outputs: `${base}:outputs`,
      feed: `${base}:feed`,
      live: `${base}:live`,
      pointer: `${base}:at`,
      voided: (claim) => `${base}:void:${claim}`,
      channel: `${channel}:channel`,
      ended: `${channel}:ended`,
    };
  };
  return {
    prefix,
    queuePrefix: `${prefix}:q`,
    run,
    session(session) {
      const base = `${ours}:session:${session}`;
      return { messages: `${base}:messages`, line: `${base}:line`, inputs: `${base}:inputs` };
    },
    transcript: (name) => (name.includes(":") ? `${ours}:${name}:messages` : run(name).messages),
    owing: `${ours}:owing`,
    listAll: `${ours}:list`,
    listsByStatus: runStatuses.map((status) => `${ours}:list:status:${status}`),
    listByStatus: (status) => `${ours}:list:status:${status}`,
    listByAgent: (agent) => `${ours}:list:agent:${agent}`,
    listBySession: (session) => `${ours}:list:session:${session}`,
    listByTenant: (tenant) => `${ours}:list:tenant:${tenant}`,
    counts: `${ours}:counts`,
    countsOfTenant: (tenant) => `${ours}:counts:tenant:${tenant}`,
    ended: (status) => `${ours}:ended:${status}`,
    idleSessions: `${ours}:sessions:idle`,
    definition: (hash) => `${ours}:definition:${hash}`,
    definitionsPut: `${ours}:definitions`,
    gate: (key) => gateKeys(`${ours}:gate:${key}`),
    presence: { until: `${ours}:workers`, told: `${ours}:workers:told`, agents: `${ours}:agents` },
    accessKeys: `${ours}:keys`,
    webSession: (idHash) => `${ours}:web:${idHash}`,
    response: (id) => ({ head: `${ours}:response:${id}`, events: `${ours}:response-events:${id}` }),
    responses: `${ours}:responses`,
    lease: (name) => `${ours}:lease:${name}`,
    control: `${channels}:r:control`,
    fleetPause: `${ours}:pause`,
    shards: `${ours}:shards`,
  };
}

function gateKeys(base: string): GateKeys {
  const leases = `${base}:leases`;
  return {
    all: [base, `${base}:tickets`, leases, `${base}:line`],
    leases,
    breaker: `${base}:breaker`,
    pause: `${base}:pause`,
  };
}

/** The hash tag of a prefix, undefined if it has none and its keys would spread over a cluster's slots. */
export function hashTag(prefix: string): string | undefined {
  return /\{([^}]+)\}/.exec(prefix)?.[1];
}

/**
 * A run's member in the listing sets: ordered by creation, then by id. It is also the cursor, so that a page goes on
 * at the right place whatever came or went meanwhile.
 */
export function listMember(run: { runId: string; createdAt: number }): string {
  return `${listTime(run.createdAt)}:${run.runId}`;
}

/** A time, epoch ms, as members begin with it: it comes before all members of that time. */
export function listTime(at: number): string {
  return String(Math.trunc(at)).padStart(15, "0");
}

/** Bounds of all members, for ranges: they begin with a digit. What lies outside another program has put there. */
export const firstMember = "[0";
export const pastMembers = "(:";

export function timeOfMember(member: string): number {
  return Number(member.slice(0, 15));
}

export function runIdOfMember(member: string): string {
  return member.slice(16);
}
