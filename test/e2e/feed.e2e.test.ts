// Catches: a reader of the feed that is shown text which did not count, or misses or sees twice what did.
import { describe, expect, test } from "vitest";
import type { RunFeedEvent } from "../../src/core/feed.ts";
import { textOf } from "../../src/core/message.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { makeWorld, readFeed, type World } from "../support/world.ts";

const firstAnswer = ["Let me ", "look ", "that up."];
const lastAnswer = ["It is ", "quite ", "sunny."];

/** The first call breaks off in mid-sentence, where its worker will die. */
function respond({ index, body }: FakeRequest): FakeReply {
  if (index === 0) return { deltas: ["Half a ", "sentence"], end: "hold" };
  const calls = ["look", "put"].map((name) => ({ name, arguments: { note: "sky", takeMs: 30 } }));
  if (turnOf(body) === 1) return { deltas: firstAnswer, chunkDelayMs: 60, toolCalls: calls };
  return { deltas: lastAnswer, chunkDelayMs: 60 };
}

/** What a reader is left with: committed entries in order, and each turn's text that was not superseded. */
function digest(events: RunFeedEvent[]): { entries: string[]; texts: Record<number, string> } {
  const texts = new Map<number, { execution: string; text: string }>();
  const entries: string[] = [];
  for (const event of events) {
    if (event.type === "text") {
      const before = texts.get(event.turn);
      const text = before?.execution === event.execution ? before.text + event.text : (before?.text ?? "") + event.text;
      texts.set(event.turn, { execution: event.execution, text });
    } else if (event.type === "text_superseded") texts.delete(event.turn);
    else entries.push(`${event.seq} ${event.type}`);
  }
  return { entries, texts: Object.fromEntries([...texts].map(([turn, { text }]) => [turn, text])) };
}

/** All that a reader was given: entries, texts by execution, and which of those were superseded. */
function given(events: RunFeedEvent[]): { entries: string[]; texts: Record<string, string>; superseded: string[] } {
  const texts: Record<string, string> = {};
  for (const event of events) {
    if (event.type === "text") texts[event.execution] = (texts[event.execution] ?? "") + event.text;
  }
  const superseded = events.flatMap((event) => (event.type === "text_superseded" ? [event.execution] : []));
  return { entries: digest(events).entries, texts, superseded };
}

function expectTextsAreAnswers(events: RunFeedEvent[]): void {
  const answers = events.flatMap((event) =>
    event.type === "model_answered" && event.answer?.role === "assistant"
      ? [[event.turn, textOf(event.answer.content)] as const]
      : [],
  );
  expect(digest(events).texts).toEqual(Object.fromEntries(answers));
}

/** Follows a run whose worker dies in mid-sentence, and kills that worker once the half sentence was seen. */
async function play(
  world: World,
  runId: string,
  onEvent: (event: RunFeedEvent) => Promise<void> | void,
): Promise<void> {
  const holder = await world.work();
  const run = await world.drover.start("e2e", "go", { runId });
  let text = "";
  let killed = false;
  for await (const event of run.events()) {
    await onEvent(event);
    if (event.type === "text") text += event.text;
    if (killed || !text.endsWith("sentence")) continue;
    killed = true;
    holder.kill9();
    await world.work();
  }
  expect(killed).toBe(true);
}

describe.each([
  ["as they come", false],
  ["with every step redelivered", true],
])("the feed of a run whose worker dies in mid-sentence, steps %s", (_title, redeliver) => {
  test("[D7] marks text that did not count, and goes on from any point without loss or repetition of what counts", async () => {
    const world = await makeWorld({ respond, redeliver });
    const seen: RunFeedEvent[] = [];
    await play(world, "feed-1", (event) => void seen.push(event));

    expect(seen.filter(({ type }) => type === "text_superseded").length).toBe(1);
    expect(digest(seen).texts).toEqual({ 1: firstAnswer.join(""), 2: lastAnswer.join("") });
    expectTextsAreAnswers(seen);
    const seqs = seen.filter(({ type }) => !type.startsWith("text")).map(({ seq }) => seq);
    expect(seqs).toEqual(seqs.map((_, index) => index + 1));

    // The replay after the end is the same to whoever reads it.
    const replay = await readFeed(world, "feed-1");
    expectTextsAreAnswers(replay);
    expect(digest(replay)).toEqual(digest(seen));

    // Whoever left after any event and comes back with its id has what one who stayed has, with the live text or without.
    for (const kept of ["live text kept", "live text gone"]) {
      if (kept === "live text gone") await world.redis.del(world.keys.run("feed-1").live);
      for (const [index, { id }] of seen.entries()) {
        const rest: RunFeedEvent[] = [];
        for await (const event of world.drover.get("feed-1").events({ after: id })) rest.push(event);
        const whole = [...seen.slice(0, index + 1), ...rest];
        expect(digest(whole), `${kept}, after ${id}`).toEqual(digest(seen));
      }
    }
  });
});

test("the feed can be left and taken up again after every single event while the run is going on", async () => {
  const world = await makeWorld({ respond });
  const inPieces: RunFeedEvent[] = [];
  let reading: Promise<void> | undefined;
  /** Takes one event at a time, each with a reader of its own. */
  async function readInPieces(runId: string): Promise<void> {
    for (let taken = 0; taken === inPieces.length && taken < 100; taken += 1) {
      for await (const event of world.drover.get(runId).events({ after: inPieces.at(-1)?.id })) {
        inPieces.push(event);
        break;
      }
    }
  }
  const seen: RunFeedEvent[] = [];
  await play(world, "feed-2", (event) => {
    seen.push(event);
    reading ??= readInPieces("feed-2");
  });
  await reading;
  expect(given(inPieces)).toEqual(given(seen));
});
