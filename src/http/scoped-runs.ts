import { DroverError, unknownRun } from "../core/errors.ts";
import type { StartOptions } from "../engine/client.ts";
import type { RunHandle } from "../engine/run-handle.ts";
import type { RunView } from "../engine/run-view.ts";
import type { SessionHandle } from "../engine/session-handle.ts";
import { fromTenantSession, toTenantSession } from "./tenant-sessions.ts";
import type { Caller, RunApi } from "./types.ts";

/**
 * Runs as a caller may see them: all, or those of its tenant. What it starts is its tenant's, and all it does is done
 * in its own name. Another tenant's run is as good as none: whatever is asked of it is "not_found".
 */
export function runsFor(runs: RunApi, caller: Caller): RunApi {
  const named = inNameOf(runs, caller.name);
  return caller.tenant === undefined ? named : ofTenant(named, caller.tenant);
}

/** The same runs, with the caller's name as whoever does something. */
function inNameOf(runs: RunApi, by: string): RunApi {
  const name = (handle: RunHandle): RunHandle => ({
    ...handle,
    cancel: (options) => handle.cancel({ ...options, by }),
    pause: (options) => handle.pause({ ...options, by }),
    resume: (options) => handle.resume({ ...options, by }),
    approve: (callId, options) => handle.approve(callId, { ...options, by }),
    deny: (callId, options) => handle.deny(callId, { ...options, by }),
    answer: (callId, value, options) => handle.answer(callId, value, { ...options, by }),
    send: (message, options) => handle.send(message, { ...options, by }),
    retry: (options) => handle.retry({ ...options, by }),
  });
  return {
    ...runs,
    start: (async (agent: string, input: string, options?: StartOptions) =>
      name(await runs.start(agent, input, { ...options, by }))) as RunApi["start"],
    get: ((runId: string) => name(runs.get(runId))) as RunApi["get"],
    session: (id) => {
      const session = runs.session(id);
      return {
        ...session,
        send: async (agent, input, options) => name(await session.send(agent, input, { ...options, by })),
      };
    },
  };
}

function ofTenant(runs: RunApi, tenant: string): RunApi {
  const seen = (view: RunView): RunView => {
    const { session, ahead, waitingFor, ...rest } = view;
    if (session === undefined) return view;
    const own = fromTenantSession(tenant, session);
    // A session that was not named by the tenant may be others' too: what it says of their runs is not told.
    return own === undefined ? rest : { ...rest, session: own, ahead, waitingFor };
  };
  const scoped = (handle: RunHandle): RunHandle => scopeHandle(handle, { tenant, seen });
  const get = (runId: string): RunHandle => scoped(runs.get(runId));

  async function start(agent: string, input: never, options: StartOptions = {}): Promise<RunHandle> {
    const { session } = options;
    const place = session === undefined ? {} : { session: toTenantSession(tenant, session) };
    return scoped(await runs.start(agent, input, { ...options, ...place, tenant }));
  }

  return {
    start: start as unknown as RunApi["start"],
    get: get as RunApi["get"],
    session(id): SessionHandle {
      const session = runs.session(toTenantSession(tenant, id));
      return {
        id,
        async runs() {
          const { active, queued } = await session.runs();
          const own = (view: RunView): boolean => view.tenant === tenant;
          return { active: active && own(active) ? seen(active) : undefined, queued: queued.filter(own).map(seen) };
        },
        transcript: () => session.transcript(),
        send: async (agent, input, options) => scoped(await session.send(agent, input, { ...options, tenant })),
      };
    },
    async list(filter = {}) {
      const { session } = filter;
      const place = session === undefined ? {} : { session: toTenantSession(tenant, session) };
      const page = await runs.list({ ...filter, ...place, tenant });
      return { ...page, runs: page.runs.map(seen) };
    },
    count: (filter) => runs.count({ ...filter, tenant }),
    async delete(runId) {
      await get(runId).status();
      return runs.delete(runId);
    },
  };
}

type Scope = { tenant: string; seen: (view: RunView) => RunView };

/** Every method looks first whose run it is; so does one that is added one day. */
function scopeHandle(handle: RunHandle, { tenant, seen }: Scope): RunHandle {
  let known: Promise<RunView> | undefined;

  async function look(): Promise<RunView> {
    const view = await handle.status().catch((error: unknown) => {
      if (error instanceof DroverError && error.code === "not_found") throw unknownRun(handle.id);
      throw error;
    });
    if (view.tenant !== tenant) throw unknownRun(handle.id);
    return view;
  }

  /** A run does not change hands, so one look is enough. */
  function own(): Promise<RunView> {
    known ??= look();
    known.catch(() => {
      known = undefined;
    });
    return known;
  }

  const isOwnSession = ({ session }: RunView): boolean =>
    session === undefined || fromTenantSession(tenant, session) !== undefined;

  const guarded = Object.fromEntries(
    Object.entries(handle).map(([name, member]) => {
      if (typeof member !== "function") return [name, member];
      const method = member as (...args: unknown[]) => Promise<unknown>;
      return [name, async (...args: unknown[]) => own().then(() => method(...args))];
    }),
  ) as unknown as RunHandle;

  return {
    ...guarded,
    status: async () => seen(await look()),
    async transcript(options = {}) {
      const view = await own();
      return handle.transcript({ ...options, session: options.session === true && isOwnSession(view) });
    },
    async turns(options = {}) {
      const view = await own();
      if (isOwnSession(view)) return handle.turns(options);
      // What the model saw of a shared session is others' too.
      const page = await handle.turns({ ...options, requests: false });
      return { ...page, turns: page.turns.map((turn) => ({ ...turn, marks: turn.marks.map(hideOther) })) };
    },
    async *events(options) {
      const view = await own();
      const hidden = !isOwnSession(view);
      for await (const event of handle.events(options)) {
        yield hidden ? hideOther(event) : event;
      }
    },
  };
}

/** Another tenant's run may go first in a session that is not the tenant's alone; which one is not told. */
function hideOther<T extends { type: string }>(told: T): T {
  return told.type === "session_queued" ? { ...told, behind: "another run" } : told;
}
