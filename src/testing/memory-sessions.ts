import type { Change } from "../core/change.ts";
import { DroverError } from "../core/errors.ts";
import type { Message } from "../core/message.ts";
import type { Run } from "../core/run.ts";
import { type LineEntry, lineEntryOf, sessionTranscript, transcriptOf } from "../core/session.ts";
import type { InputClaim, RunStore } from "../ports.ts";

/** Transcripts and the lines of sessions, in the memory of this process. */
export type MemorySessions = {
  /** By name, see `transcriptOf`. */
  transcripts: Map<string, Message[]>;
  /** What the run knows of its transcript. */
  messagesOf(run: Run): Message[];
  /** @throws DroverError "invalid" if the transcript is not as long as the change supposes. */
  append(change: Change, messages: Message[]): void;
  /** Moves a run in its session's line as its place changes. */
  move(previous: Run | null, run: Run): void;
  /** Drops the run's own transcript, and its place in line; its session's transcript stays. */
  forget(run: Run): void;
  /** Drops what is kept of a session. */
  drop(session: string): void;
  readers: Pick<RunStore, "readMessages" | "readSession" | "dropFromLine" | "claimInput" | "confirmInput">;
};

export function createMemorySessions(records: ReadonlyMap<string, { run: Run }>): MemorySessions {
  const transcripts = new Map<string, Message[]>();
  const lines = new Map<string, LineEntry[]>();
  const claims = new Map<string, InputClaim>();
  const lineOf = (session: string): LineEntry[] => lines.get(session) ?? [];

  return {
    transcripts,
    messagesOf: (run) => copy(transcripts.get(transcriptOf(run))?.slice(0, run.messageCount) ?? []),
    append({ run, append }, messages) {
      if (run.baseMessage !== undefined && append.length === 0) return;
      const stored = transcripts.get(transcriptOf(run)) ?? [];
      if (stored.length !== run.messageCount - append.length) {
        throw new DroverError("invalid", `The stored record of run ${run.runId} is damaged (transcript).`);
      }
      transcripts.set(transcriptOf(run), [...stored, ...messages]);
    },
    move(previous, run) {
      if (run.session === undefined || previous?.place === run.place) return;
      const before = previous ? lineEntryOf(previous) : undefined;
      const after = lineEntryOf(run);
      if (before?.round === after?.round) return;
      const others = lineOf(run.session).filter((entry) => entry.runId !== run.runId);
      lines.set(run.session, after ? [...others, after] : others);
    },
    forget({ runId, session }) {
      transcripts.delete(runId);
      const others = lineOf(session ?? "").filter((entry) => entry.runId !== runId);
      if (session !== undefined) lines.set(session, others);
    },
    drop(session) {
      transcripts.delete(sessionTranscript(session));
      lines.delete(session);
      for (const key of claims.keys()) if (key.startsWith(`${session} `)) claims.delete(key);
    },
    readers: {
      readMessages: async (name, from, to) =>
        copy(transcripts.get(name)?.slice(Math.max(0, from), Math.max(0, to)) ?? []),
      readSession: async (session, limit) => ({
        line: copy(lineOf(session).slice(0, limit)),
        messageCount: transcripts.get(sessionTranscript(session))?.length ?? 0,
      }),
      dropFromLine: createDrop({ records, transcripts, lines }),
      async claimInput(session, inputId, inputHash, refusedBy) {
        const key = `${session} ${inputId}`;
        const held = claims.get(key);
        if (held && (held.taken || held.runId !== refusedBy)) return copy(held);
        const head = held || records.has(inputId) ? undefined : lineOf(session)[0];
        const claim = { runId: head?.runId ?? inputId, inputHash: held?.inputHash ?? inputHash, taken: false };
        claims.set(key, claim);
        return copy(claim);
      },
      async confirmInput(session, inputId, claim) {
        claims.set(`${session} ${inputId}`, { ...claim, taken: true });
      },
    },
  };
}

type Parts = {
  records: ReadonlyMap<string, { run: Run }>;
  transcripts: Map<string, Message[]>;
  lines: Map<string, LineEntry[]>;
};

function createDrop({ records, transcripts, lines }: Parts): RunStore["dropFromLine"] {
  const isChanged = (runId: string, seen: Run | null): boolean => {
    const held = records.get(runId)?.run;
    return held !== undefined && (held.token !== seen?.token || held.revision !== seen.revision);
  };
  return async (session, entry, { seen, messageCount, messages }) => {
    if (isChanged(entry.runId, seen)) return false;
    const isMeant = ({ runId, round }: LineEntry): boolean => runId === entry.runId && round === entry.round;
    const line = lines.get(session) ?? [];
    if (line.findIndex(isMeant) === 0) {
      const stored = transcripts.get(sessionTranscript(session)) ?? [];
      if (stored.length !== messageCount) return false;
      transcripts.set(sessionTranscript(session), [...stored, ...copy(messages)]);
    }
    const others = line.filter((other) => !isMeant(other));
    lines.set(session, others);
    return others.length < line.length;
  };
}

/** By value, and undefined fields left out, as storing does. */
export function copy<T>(value: T): T {
  return value === undefined ? value : JSON.parse(JSON.stringify(value));
}
