import { DroverError } from "../core/errors.ts";
import type { InputMessage, Message } from "../core/message.ts";
import { runIdSchema } from "../core/new-run.ts";
import type { Redaction } from "../core/redact-event.ts";
import type { Run } from "../core/run.ts";
import { sessionTranscript } from "../core/session.ts";
import type { RunStore } from "../ports.ts";
import type { Client, StartOptions } from "./client.ts";
import type { RunHandle } from "./run-handle.ts";
import { type RunView, toView } from "./run-view.ts";

/** Runs that share a transcript, from any process. */
export type SessionHandle = {
  readonly id: string;
  /** The active run, if there is one, and those that wait, in order; at most 1,000 of them. */
  runs(): Promise<{ active: RunView | undefined; queued: RunView[] }>;
  /** What was said and done so far, by all its runs. */
  transcript(): Promise<Message[]>;
  /** Starts a run of the session. @throws DroverError "invalid" "too_large" "conflict" "queue_unavailable" */
  send(
    agent: { readonly name: string } | string,
    input: string | InputMessage[],
    options?: Omit<StartOptions, "session">,
  ): Promise<RunHandle>;
};

type Deps = { store: RunStore; client: Client; redaction: Redaction; handle: (runId: string) => RunHandle };

const mostListed = 1_000;

/** @throws DroverError "invalid" for an id that no session can have. */
export function createSessionHandle({ store, client, redaction, handle }: Deps, id: string): SessionHandle {
  const problem = runIdSchema.safeParse(id).error?.issues[0];
  if (problem) throw new DroverError("invalid", `session: ${problem.message}.`);
  return {
    id,
    async runs() {
      const { line } = await store.readSession(id, mostListed);
      const loaded = await Promise.all(line.map(({ runId }) => store.load(runId)));
      const runs = loaded.filter((run) => run !== null);
      const active = runs.find(({ place }) => place?.state === "active");
      const queued = runs.filter(({ place }) => place?.state === "joined" || place?.state === "queued");
      const view = (run: Run): RunView => toView(run, undefined, redaction.redactor);
      return { active: active && view(active), queued: queued.map(view) };
    },
    async transcript() {
      const { messageCount } = await store.readSession(id, 1);
      return store.readMessages(sessionTranscript(id), 0, messageCount);
    },
    async send(agent, input, options) {
      const name = typeof agent === "string" ? agent : agent.name;
      const run = await client.start(name, input, { ...options, session: id });
      return handle(run.runId);
    },
  };
}
