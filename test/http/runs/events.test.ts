// Catches: a stream that loses or repeats events over a cut, falls silent, or fills the memory for a client that is gone.
import { createParser } from "eventsource-parser";
import { describe, expect, test, vi } from "vitest";
import { DroverError } from "../../../src/core/errors.ts";
import { defineAgent } from "../../../src/define-agent.ts";
import { createWatch } from "../../../src/engine/watch.ts";
import { createMemoryRunStore, createMemorySignals } from "../../../src/testing/index.ts";
import { scriptedModel } from "../../../src/testing/scripted-model.ts";
import { play } from "../../support/feed-history.ts";
import { createTestHttp, json, type TestHttp } from "../../support/http.ts";

type Event = { id: string | undefined; event: string | undefined; data: string };
type Read = { events: Event[]; comments: string[]; retry: number[] };

/** Reads a stream until `enough` says so or it ends. */
async function readStream(response: Response, enough: (read: Read) => boolean = () => false): Promise<Read> {
  const read: Read = { events: [], comments: [], retry: [] };
  const parser = createParser({
    onEvent: ({ id, event, data }) => void read.events.push({ id, event, data }),
    onComment: (comment) => void read.comments.push(comment),
    onRetry: (ms) => void read.retry.push(ms),
  });
  if (!response.body) throw new Error("there is no body");
  const decoder = new TextDecoder();
  for await (const chunk of response.body) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    if (enough(read)) break;
  }
  return read;
}

const seqs = ({ events }: Read): number[] =>
  events.flatMap(({ event, data }) => (event?.startsWith("text") ? [] : [(JSON.parse(data) as { seq: number }).seq]));
const textOf = ({ events }: Read): string =>
  events.flatMap(({ event, data }) => (event === "text" ? [(JSON.parse(data) as { text: string }).text] : [])).join("");

const talker = (text: string): ReturnType<typeof defineAgent> =>
  defineAgent({
    name: "talker",
    instructions: "Talk.",
    model: scriptedModel([{ text, deltas: text.split(/(?<= )/) }]),
  });

async function started(http: TestHttp): Promise<void> {
  await http.fetch("/runs", json({ agent: "talker", input: "go", runId: "r-1" }));
}

describe("events", () => {
  test("go on from Last-Event-ID or ?after= without loss or repetition, after each of them", async () => {
    const http = await createTestHttp({
      agents: [talker("It is raining in Oslo today, my password: hunter2hunter2 ")],
    });
    await started(http);
    const whole = await readStream(await http.fetch("/runs/r-1/events"));
    expect(whole.retry).toEqual([1_000]);
    expect(textOf(whole)).toBe("It is raining in Oslo today, my password: [redacted: password] ");
    for (const [index, { id = "" }] of whole.events.entries()) {
      const before = { ...whole, events: whole.events.slice(0, index + 1) };
      const byHeader = await http.fetch("/runs/r-1/events", { headers: { "last-event-id": id } });
      const byQuery = await http.fetch(`/runs/r-1/events?after=${id}`);
      if (index === whole.events.length - 1) {
        // A browser that is told so does not connect again.
        expect([byHeader.status, byQuery.status]).toEqual([204, 204]);
        continue;
      }
      for (const response of [byHeader, byQuery]) {
        const rest = await readStream(response);
        expect([...seqs(before), ...seqs(rest)]).toEqual(seqs(whole));
        expect(textOf(before) + textOf(rest)).toBe(textOf(whole));
      }
    }
  });

  test.each(["nonsense", "1.2", "-1", "1e3", "99999999999999999999", "9999"])(
    "refuse the id %s with 400",
    async (id) => {
      const http = await createTestHttp({ agents: [talker("hi")] });
      await started(http);
      const refused = await http.fetch("/runs/r-1/events", { headers: { "last-event-id": id } });
      expect([refused.status, ((await refused.json()) as { code: string }).code]).toEqual([400, "invalid"]);
    },
  );

  test("are pinged while nothing happens, and end with a word when the server closes", async () => {
    const hold = Promise.withResolvers<string>();
    const model = scriptedModel([() => hold.promise]);
    const closing = new AbortController();
    const http = await createTestHttp({
      agents: [defineAgent({ name: "talker", instructions: "Talk.", model })],
      settings: { heartbeatMs: 20 },
      deps: { closing: closing.signal },
    });
    await started(http);
    const stream = await http.fetch("/runs/r-1/events");
    const read = await readStream(stream, ({ comments }) => {
      if (comments.length >= 3) closing.abort();
      return false;
    });
    expect(read.comments.slice(0, 3)).toEqual(["ping", "ping", "ping"]);
    expect(read.comments.at(-1)).toBe("the server is closing");
    expect(read.events.map(({ event }) => event)).toEqual(["run_created", "run_began"]);
    hold.resolve("done");
  });

  test("go on after an outage of Redis", async () => {
    const hold = Promise.withResolvers<string>();
    const model = scriptedModel([() => hold.promise]);
    const http = await createTestHttp({ agents: [defineAgent({ name: "talker", instructions: "Talk.", model })] });
    const { watch } = http.deps;
    let outages = 2;
    const events = watch.events.bind(watch);
    watch.events = async function* (runId, options) {
      for await (const event of events(runId, options)) {
        yield event;
        if (event.type === "run_began" && outages-- > 0) throw new DroverError("queue_unavailable", "Redis is away.");
      }
    };
    await started(http);
    const reading = http.fetch("/runs/r-1/events").then((response) => readStream(response));
    hold.resolve("done");
    const read = await reading;
    expect(read.events.map(({ event }) => event)).toEqual([
      "run_created",
      "run_began",
      "text",
      "model_answered",
      "run_ended",
    ]);
  });
});

test("an ended run that was retried meanwhile is watched on", async () => {
  const http = await createTestHttp({ agents: [talker("hi")] });
  await started(http);
  await http.fetch("/runs/r-1/result?waitMs=5000");
  const { eventSeq } = (await http.store.load("r-1")) ?? { eventSeq: 0 };
  http.deps.watch.events = async function* () {
    await new Promise((resolve) => setTimeout(resolve, 1_200));
    yield { type: "run_retried", seq: eventSeq + 1, id: String(eventSeq + 1), at: 1, turn: 1, by: "ann" };
  };
  const response = await http.fetch(`/runs/r-1/events?after=${eventSeq}`);
  expect([response.status, seqs(await readStream(response))]).toEqual([200, [eventSeq + 1]]);
});

test("asked for its headers alone, nothing is begun", async () => {
  const http = await createTestHttp({ agents: [talker("hi")] });
  await started(http);
  await http.fetch("/runs/r-1/result?waitMs=5000");
  const begun = vi.spyOn(http.deps.watch, "events");
  const head = await http.fetch("/runs/r-1/events?after=1", { method: "HEAD" });
  expect([head.status, head.headers.get("content-type"), begun.mock.calls.length]).toEqual([
    200,
    "text/event-stream; charset=utf-8",
    0,
  ]);
});

describe("a client that never reads", () => {
  test("costs bounded memory while 100 MB of events are made", async () => {
    const signals = createMemorySignals();
    const store = createMemoryRunStore({ signals });
    const asked = vi.spyOn(store, "readMessages");
    const cacheBytes = 4_000_000;
    const watch = createWatch({ store, signals, cacheBytes });
    const http = await createTestHttp({ agents: [], deps: { watch } });
    http.deps.runs.get = ((runId: string) => ({ id: runId, status: async () => ({ status: "running" }) })) as never;
    // One text of half a megabyte, over and over.
    const big = "all work and no play ".repeat(25_000);
    const turns = Array.from({ length: 100 }, () => ({ failed: [], answer: [big], results: [], input: false }));
    const playing = play(store, "run-a", turns);
    const stream = await http.fetch("/runs/run-a/events");
    const reader = stream.body?.getReader();
    await reader?.read();
    await playing;
    const before = asked.mock.calls.length;
    expect(watch.stats().bytes).toBeLessThanOrEqual(cacheBytes);
    // Nobody took more than the first chunk, so no more than the first portion was read.
    expect(before).toBeLessThanOrEqual(20);
    await reader?.cancel();
    await vi.waitFor(() => expect(watch.stats()).toEqual({ watchers: 0, runs: 0, bytes: 0 }));
  });
});
