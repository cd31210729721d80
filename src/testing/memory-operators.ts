import { DroverError } from "../core/errors.ts";
import type {
  Clock,
  KeyStore,
  KnownAgent,
  KnownGate,
  Presence,
  ResponseRecord,
  ResponseStore,
  StoredKey,
  WebSession,
  WorkerPresence,
} from "../ports.ts";
import { copy } from "./memory-sessions.ts";

type Time = Pick<Clock, "now">;

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Workers telling of themselves, in the memory of this process. Contract: `Presence`. */
export function createMemoryPresence({ clock }: { clock: Time }): Presence {
  const told = new Map<string, { worker: WorkerPresence; gates: KnownGate[]; until: number }>();
  const agents = new Map<string, KnownAgent>();
  const there = () => [...told.values()].filter(({ until }) => until > clock.now());

  return {
    async tell(worker, known, gates, ttlMs) {
      told.set(worker.id, { worker: copy(worker), gates: copy(gates), until: clock.now() + ttlMs });
      for (const agent of known) agents.set(agent.name, copy(agent));
    },
    async leave(workerId) {
      told.delete(workerId);
    },
    async workers() {
      const workers = there().map(({ worker }) => copy(worker));
      return workers.sort((a, b) => a.startedAt - b.startedAt || compare(a.id, b.id));
    },
    async forgetAgent(name) {
      agents.delete(name);
    },
    agents: async () => [...agents.values()].map(copy).sort((a, b) => compare(a.name, b.name)),
    async gates() {
      const byAge = there().sort((a, b) => a.worker.seenAt - b.worker.seenAt);
      const byKey = new Map(byAge.flatMap(({ gates }) => gates.map((gate) => [gate.key, copy(gate)])));
      return [...byKey.values()].sort((a, b) => compare(a.key, b.key));
    },
  };
}

/** Keys and sessions for HTTP, in the memory of this process. Contract: `KeyStore`. */
export function createMemoryKeyStore({ clock }: { clock: Time }): KeyStore {
  const keys = new Map<string, StoredKey>();
  const sessions = new Map<string, { session: WebSession; until: number }>();
  return {
    async put(key) {
      keys.set(key.id, copy(key));
    },
    async replace(key, secretHash) {
      if (keys.get(key.id)?.secretHash !== secretHash) return false;
      keys.set(key.id, copy(key));
      return true;
    },
    get: async (id) => copy(keys.get(id)),
    list: async () => [...keys.values()].map(copy).sort((a, b) => a.createdAt - b.createdAt || compare(a.id, b.id)),
    remove: async (id) => keys.delete(id),
    async putSession(idHash, session, ttlMs) {
      sessions.set(idHash, { session: copy(session), until: clock.now() + ttlMs });
    },
    async getSession(idHash) {
      const held = sessions.get(idHash);
      return held && held.until > clock.now() ? copy(held.session) : undefined;
    },
    async removeSession(idHash) {
      sessions.delete(idHash);
    },
  };
}

type StoredResponse = { record: ResponseRecord; events: string[]; expiresAt: number; dueAt: number };

/** Answers of the Responses endpoint, in the memory of this process. Contract: `ResponseStore`. */
export function createMemoryResponseStore({ clock }: { clock: Time }): ResponseStore {
  const responses = new Map<string, StoredResponse>();
  return {
    async create(record) {
      const held = responses.get(record.id);
      if (held) return copy(held.record);
      const { createdAt: dueAt } = record;
      responses.set(record.id, { record: copy(record), events: [], expiresAt: Number.POSITIVE_INFINITY, dueAt });
      return copy(record);
    },
    get: async (id) => copy(responses.get(id)?.record),
    remove: async (id) => responses.delete(id),
    async append(id, from, events) {
      const held = responses.get(id);
      if (!held) throw new DroverError("not_found", `There is no response "${id}"; it may have been deleted.`);
      const isOver = held.events.length > 0 && held.expiresAt <= clock.now();
      if (isOver || held.events.length !== from) return false;
      held.events.push(...events);
      return true;
    },
    async read(id, from, limit) {
      const held = responses.get(id);
      if (!held || held.expiresAt <= clock.now()) return [];
      const start = Math.max(0, from);
      return held.events.slice(start, start + Math.max(0, Math.min(limit, 1_000)));
    },
    async expireEvents(id, ms) {
      const held = responses.get(id);
      if (held && held.events.length > 0) held.expiresAt = clock.now() + ms;
    },
    async due(before, limit) {
      const all = [...responses].filter(([, { dueAt }]) => dueAt < before);
      all.sort(([, a], [, b]) => a.dueAt - b.dueAt);
      return all.slice(0, limit).map(([id, { record }]) => ({ id, runId: record.runId }));
    },
    async postpone(id, at) {
      const held = responses.get(id);
      if (held) held.dueAt = at;
    },
  };
}
