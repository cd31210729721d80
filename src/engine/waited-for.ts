import type { Run } from "../core/run.ts";
import { waitsForChild } from "../core/transition-children.ts";
import type { RunStore } from "../ports.ts";

/** Whether a call still waits for what comes, or came, of this run. Only of a child can that be so. */
export async function isWaitedFor(store: Pick<RunStore, "load">, { runId, parent }: Run): Promise<boolean> {
  if (!parent) return false;
  const head = await store.load(parent.runId);
  return head !== null && waitsForChild(head, { callId: parent.callId, childId: runId });
}
