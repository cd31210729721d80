import type { Run } from "../../core/run.ts";
import { transcriptOf } from "../../core/session.ts";
import type { HttpDeps } from "../types.ts";

type Store = Pick<HttpDeps["store"], "readMessages">;

const mostResults = 200;

/** Where a response ends in its transcript. Results of the last turn stand behind it, once all were there. */
export async function endOf(store: Store, run: Run, upTo: number): Promise<number> {
  const after = await store.readMessages(transcriptOf(run), upTo, Math.min(run.messageCount, upTo + mostResults));
  const others = after.findIndex(({ role }) => role !== "tool");
  return upTo + (others === -1 ? after.length : others);
}

/** Whether nothing was said in the session after a response. */
export async function isLastOfSession(store: Store, run: Run, upTo: number): Promise<boolean> {
  const end = await endOf(store, run, upTo);
  return (await store.readMessages(transcriptOf(run), end, end + 1)).length === 0;
}
