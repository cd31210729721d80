import type { AgentDefinition, ToolSpec } from "../core/agent.ts";
import type { FeedEntry } from "../core/event.ts";
import type { Message, ToolMessage } from "../core/message.ts";
import type { Redaction } from "../core/redact-event.ts";
import { redactShown } from "../core/report-turn.ts";
import type { Run } from "../core/run.ts";
import { transcriptOf } from "../core/session.ts";
import type { RunStore } from "../ports.ts";
import { readWholeFeed } from "./decide.ts";

type Summarised = Extract<FeedEntry, { type: "summarised" }>;

/** What a report's entries point at, redacted, each thing read and redacted once. */
export type ReportContent = {
  /** By transcript index, as far as it was read. */
  readonly messages: readonly (Message | undefined)[];
  redact(message: Message): Message;
  /** Reads half-open ranges of indexes; others on the way may come along. */
  read(ranges: readonly [number, number][]): Promise<void>;
  /** Results that wait for the others of their turn. */
  readEarly(): Promise<Record<string, ToolMessage>>;
  definition(hash: string): Promise<AgentDefinition | null>;
  /** Tools that came with the start. */
  readonly callerTools: readonly ToolSpec[];
  /** The number of the entry by which a budget was first learned from a refusal; infinite if none was. */
  firstShrunk(): Promise<number>;
  /** The summary with this sequence number. */
  summary(seq: number): Promise<Summarised | undefined>;
};

/** Ranges with at most so many messages between them are read at once. */
const gap = 20;

export function createReportContent(
  { store, redaction }: { store: RunStore; redaction: Redaction },
  run: Run,
): ReportContent {
  const { redactor } = redaction;
  const messages: Message[] = [];
  const redact = (message: Message): Message => redactShown(message, redactor);
  const once = createOnce();
  return {
    messages,
    redact,
    async read(ranges) {
      const missing = ranges.filter(([from, to]) => {
        for (let index = from; index < to; index++) if (messages[index] === undefined) return true;
        return false;
      });
      await Promise.all(
        joined(missing).map(async ([from, to]) => {
          const found = await store.readMessages(transcriptOf(run), from, to);
          for (const [index, message] of found.entries()) messages[from + index] ??= redact(message);
        }),
      );
    },
    async readEarly() {
      const early = Object.entries(await store.readResults(run.runId));
      return Object.fromEntries(early.map(([callId, result]) => [callId, redact(result) as ToolMessage]));
    },
    callerTools: redactor.value(run.tools ?? []),
    definition: (hash) => once(`definition ${hash}`, async () => redactor.value(await store.getDefinition(hash))),
    firstShrunk: () =>
      once("shrunk", async () => {
        const feed = await readWholeFeed(store, run.runId);
        return feed.find(({ type }) => type === "window_shrunk")?.seq ?? Number.POSITIVE_INFINITY;
      }),
    summary: (seq) =>
      once(`summary ${seq}`, async () => {
        const [entry] = await store.readFeed(run.runId, seq - 1, 1);
        return entry?.type === "summarised" && entry.seq === seq ? redactor.value(entry) : undefined;
      }),
  };
}

function createOnce(): <T>(key: string, make: () => Promise<T>) => Promise<T> {
  const made = new Map<string, Promise<unknown>>();
  return <T>(key: string, make: () => Promise<T>) => {
    const known = made.get(key) ?? make();
    made.set(key, known);
    return known as Promise<T>;
  };
}

/** Ranges in order, those that touch or nearly do as one. */
function joined(ranges: readonly [number, number][]): [number, number][] {
  const result: [number, number][] = [];
  for (const [from, to] of ranges.toSorted((a, b) => a[0] - b[0])) {
    const last = result.at(-1);
    if (last && from - last[1] <= gap) last[1] = Math.max(last[1], to);
    else result.push([from, to]);
  }
  return result;
}
