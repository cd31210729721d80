// Catches: events that the official client's accumulator throws at, or text in a response that did not count; numbers that
// depend on who made them.
import fc from "fast-check";
import { ResponseStream } from "openai/lib/responses/ResponseStream";
import { expect, test } from "vitest";
import type { RunFeedEvent } from "../../../src/core/feed.ts";
import { answerTextOf } from "../../../src/core/reply-text.ts";
import { eventOf, readLog, toStored } from "../../../src/http/v1/event-log.ts";
import { begin, project } from "../../../src/http/v1/project.ts";
import { type Projection, startProjection } from "../../../src/http/v1/projection.ts";
import { createThoughtFilter } from "../../../src/http/v1/thoughts.ts";
import { histories, subject, toFeed } from "./feeds.ts";

/** The stored log of a projection, made in one go. */
function logOf(feed: readonly RunFeedEvent[]): { stored: string[]; state: Projection } {
  const stored: string[] = [];
  const filter = createThoughtFilter();
  let made = begin(startProjection(subject), subject);
  stored.push(...toStored(made.events, made.state));
  for (const event of feed.flatMap(filter)) {
    made = project(made.state, subject, event);
    if (made.events.length > 0) stored.push(...toStored(made.events, made.state));
  }
  return { stored, state: made.state };
}

const eventsOf = (stored: readonly string[]) => stored.map((line) => JSON.parse(eventOf(line)));

/** What the official client makes of the events. */
async function accumulate(stored: readonly string[]) {
  const lines = stored.map((line) => `${eventOf(line)}\n`).join("");
  const stream = ResponseStream.fromReadableStream(new Blob([lines]).stream());
  const throughout: string[] = [];
  stream.on("event", ({ type }) => throughout.push(type));
  return { final: await stream.finalResponse(), throughout };
}

test("whatever a run does, the client's accumulator takes its events and ends with what counts", async () => {
  await fc.assert(
    fc.asyncProperty(histories, async (history) => {
      const feed = toFeed(history);
      const { stored, state } = logOf(feed);
      const { final, throughout } = await accumulate(stored);
      expect(state.phase).toBe("ended");
      expect(throughout).toHaveLength(stored.length);
      const events = eventsOf(stored);
      expect(events.map(({ sequence_number: number }) => number)).toEqual(events.map((_, index) => index));
      const asking = history.turns.find(({ what }) => what === "caller" || what === "both");
      const counts = asking ?? (history.stopReason === "answered" ? history.last : undefined);
      const text = counts && counts.what !== "refusal" ? answerTextOf({ content: counts.answer.join("") }) : "";
      expect(final.output_text.trim()).toBe(text);
      const statuses = {
        answered: "completed",
        cancelled: "cancelled",
        max_turns: "incomplete",
        deadline: "incomplete",
        poison: "failed",
      };
      expect(final.status).toBe(asking ? "completed" : statuses[history.stopReason as keyof typeof statuses]);
      const calls = final.output.filter(({ type }) => type === "function_call");
      expect(calls).toHaveLength(asking ? (asking.what === "caller" ? 2 : 1) : 0);
      const open = events.filter(({ type }) => type === "response.output_item.added").length;
      expect(events.filter(({ type }) => type === "response.output_item.done")).toHaveLength(open);
    }),
    { numRuns: 300 },
  );
});

/** The feed from where a projection goes on, as a reader gets it who hears the open text again. */
function after(feed: readonly RunFeedEvent[], { seq, voided }: Projection): RunFeedEvent[] {
  const from = feed.findLastIndex((event) => !event.type.startsWith("text") && event.seq <= seq);
  return feed
    .slice(from + 1)
    .filter((event) => !("execution" in event && event.type.startsWith("text") && event.execution <= (voided ?? "")));
}

test("cut after any of its writes and gone on with by another, the log is the same", async () => {
  await fc.assert(
    fc.asyncProperty(histories, fc.nat(), async (history, at) => {
      const feed = toFeed(history);
      const whole = logOf(feed).stored;
      // Only whole writes are there: a checkpoint ends each.
      const ends = whole.flatMap((line, index) => (line.includes("\n") ? [index + 1] : []));
      const kept = whole.slice(0, ends[at % ends.length]);
      let state = await readLog({ read: async (_id, from, limit) => kept.slice(from, from + limit) }, subject);
      const filter = createThoughtFilter();
      for (const event of after(feed, state).flatMap(filter)) {
        const made = project(state, subject, event);
        state = made.state;
        if (made.events.length > 0) kept.push(...toStored(made.events, made.state));
      }
      expect(eventsOf(kept)).toEqual(eventsOf(whole));
    }),
    { numRuns: 500 },
  );
});
