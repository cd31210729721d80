import { mayGo } from "../core/retention.ts";
import type { Run } from "../core/run.ts";
import type { Clock, RetentionStore, RunStore } from "../ports.ts";
import type { MemorySessions } from "./memory-sessions.ts";

type Parts = {
  runs: () => Run[];
  remove: RunStore["remove"];
  sessions: MemorySessions;
  clock?: Clock | undefined;
};

/** How runs that ended long ago go, in the memory of this process. `remove` is told of sessions that it leaves without runs. */
export function createMemoryRetention({
  runs,
  remove,
  sessions,
  clock,
}: Parts): Omit<RetentionStore, "removeDefinitions"> & Pick<RunStore, "remove" | "removeDamaged" | "whyDamaged"> {
  const idle = new Map<string, number>();
  const hasRuns = (session: string): boolean => runs().some((run) => run.session === session);
  const endedBy = (status: string): { run: Run; at: number }[] =>
    runs()
      .flatMap((run) => (run.status === status && run.endedAt !== undefined ? [{ run, at: run.endedAt }] : []))
      .sort((a, b) => a.at - b.at);

  async function removeAt(run: Run, leftAt: number): Promise<boolean> {
    const isGone = await remove(run);
    if (isGone && run.session !== undefined && !hasRuns(run.session)) idle.set(run.session, leftAt);
    return isGone;
  }

  return {
    remove: (run) => removeAt(run, clock?.now() ?? 0),
    // What is kept here is whole.
    removeDamaged: async () => null,
    whyDamaged: async () => undefined,
    async removeEnded(status, before, limit, { offset = 0, spare } = {}) {
      const due = endedBy(status).filter(({ at }) => at < before);
      const page = due.slice(offset, offset + limit);
      const removed: string[] = [];
      for (const { run, at } of page) {
        if (!mayGo(run, status, before) || (await spare?.(run))) continue;
        if (await removeAt(run, at)) removed.push(run.runId);
      }
      return { removed, kept: page.length - removed.length };
    },
    async removeIdleSessions(before, limit) {
      const due = [...idle].filter(([, at]) => at < before).slice(0, limit);
      for (const [session] of due) {
        idle.delete(session);
        if (!hasRuns(session)) sessions.drop(session);
      }
      return due.length;
    },
    oldestEnd: async (status) => endedBy(status)[0]?.at,
    async oldestCreation() {
      const times = runs().map(({ createdAt }) => createdAt);
      return times.length === 0 ? undefined : Math.min(...times);
    },
  };
}
