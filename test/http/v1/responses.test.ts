// Catches: a response that the official client cannot read, wait for, watch, stop or remove.
import type { ResponseInputItem, ResponseStreamEvent } from "openai/resources/responses/responses";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { createV1Test, gate, makeAgent, textOfAll } from "./support.ts";

const hello = { text: "Hello there.", deltas: ["Hello ", "there."] };

const look = defineTool({
  name: "look",
  description: "Looks at something.",
  parameters: z.object({ at: z.string().describe("what") }),
  effect: "read",
  execute: ({ at }) => `saw ${at}`,
});

async function eventsOf(stream: AsyncIterable<ResponseStreamEvent>): Promise<ResponseStreamEvent[]> {
  const events: ResponseStreamEvent[] = [];
  for await (const event of stream) events.push(event);
  return events;
}

describe("a response", () => {
  test("is created, waited for and retrieved", async () => {
    const { client } = await createV1Test({ agents: [makeAgent([hello])] });
    const response = await client.responses.create({ model: "helper", input: "hi", metadata: { order: "7" } });
    expect(response).toMatchObject({
      object: "response",
      status: "completed",
      output_text: "Hello there.",
      model: "helper",
      metadata: { order: "7" },
      background: false,
      error: null,
      incomplete_details: null,
    });
    expect(response.completed_at).toBeGreaterThanOrEqual(response.created_at);
    expect(response.usage?.total_tokens).toBe(
      (response.usage?.input_tokens ?? 0) + (response.usage?.output_tokens ?? 0),
    );
    expect(response._request_id).toMatch(/./);
    expect(await client.responses.retrieve(response.id)).toEqual(response);
  });

  test("is found as a run by its metadata", async () => {
    const { client, http } = await createV1Test({ agents: [makeAgent([hello])] });
    const { id } = await client.responses.create({ model: "helper", input: "hi", metadata: { order: "7" } });
    const { runs } = await http.drover.list({ metadata: { order: "7" } });
    expect(runs.map(({ runId }) => runId)).toEqual([id]);
  });

  test("is streamed to the client's helper, without the agent's own calls and what was said with them", async () => {
    const script = [{ text: "Let me look.", toolCalls: [{ name: "look", arguments: { at: "sky" } }] }, hello];
    const { client } = await createV1Test({ agents: [makeAgent(script, { tools: [look] })] });
    const stream = client.responses.stream({ model: "helper", input: "hi" });
    const events = await eventsOf(stream);
    expect((await stream.finalResponse()).output_text).toBe("Hello there.");
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, index) => index));
    expect(events.map(({ type }) => type)).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.completed",
    ]);
    const done = events.filter((event) => event.type === "response.output_item.done").map(({ item }) => item);
    expect(done).toMatchObject([{ status: "incomplete" }, { status: "completed" }]);
  });

  test("in the background is queued at once, polled, and replayed from the first event", async () => {
    const held = gate();
    const { client } = await createV1Test({ agents: [makeAgent([held.before(hello)])] });
    const created = await client.responses.create({ model: "helper", input: "hi", background: true });
    expect(created).toMatchObject({ status: "queued", output: [], usage: null });
    await held.reached;
    expect(await client.responses.retrieve(created.id)).toMatchObject({ status: "in_progress" });
    held.open();
    const stream = client.responses.stream({ response_id: created.id });
    const final = await stream.finalResponse();
    expect(final).toMatchObject({ status: "completed", output_text: "Hello there." });
    const replayed = await eventsOf(await client.responses.retrieve(created.id, { stream: true }));
    expect(replayed.slice(0, 3).map(({ type }) => type)).toEqual([
      "response.created",
      "response.queued",
      "response.in_progress",
    ]);
    expect(await client.responses.retrieve(created.id)).toMatchObject({ output_text: final.output_text });
  });

  test("can be resumed after each of its events, with the same events", async () => {
    const { client } = await createV1Test({ agents: [makeAgent([hello])] });
    const events = await eventsOf(
      await client.responses.create({ model: "helper", input: "hi", background: true, stream: true }),
    );
    const id = "response" in (events[0] ?? {}) ? (events[0] as { response: { id: string } }).response.id : "";
    for (const { sequence_number: after } of events) {
      const rest = await eventsOf(await client.responses.retrieve(id, { stream: true, starting_after: after }));
      expect(rest).toEqual(events.slice(after + 1));
    }
  });

  test("cannot be resumed after an event that there is not", async () => {
    const { client } = await createV1Test({ agents: [makeAgent([hello])] });
    const { id } = await client.responses.create({ model: "helper", input: "hi" });
    const resume = client.responses.retrieve(id, { stream: true, starting_after: 1_000 });
    await expect(resume).rejects.toMatchObject({ status: 400, param: "starting_after" });
    await expect(client.get(`/responses/${id}?stream=true&starting_after=x`)).rejects.toMatchObject({ status: 400 });
  });

  test("whose events have expired is replayed anew, and not resumed", async () => {
    let now = Date.now();
    const { client } = await createV1Test({ agents: [makeAgent([hello])], clock: { now: () => now } });
    const first = await eventsOf(await client.responses.create({ model: "helper", input: "hi", stream: true }));
    const { id } = (first[0] as { response: { id: string } }).response;
    now += 11 * 60_000;
    const resume = client.responses.retrieve(id, { stream: true, starting_after: 2 });
    await expect(resume).rejects.toMatchObject({ status: 400, code: "events_expired", param: "starting_after" });
    const again = await client.responses.stream({ response_id: id }).finalResponse();
    expect(again.output_text).toBe("Hello there.");
    expect(again.output).toMatchObject((first.at(-1) as { response: { output: object[] } }).response.output);
  });

  test.each([
    ["queued", true],
    ["in progress", false],
  ])("that is %s can be cancelled, again and again", async (_state, isQueued) => {
    const held = gate();
    const { client } = await createV1Test({ agents: [makeAgent([held.before(hello)])] });
    // Runs of one conversation take turns.
    const request = { model: "helper", input: "hi", background: true, conversation: "c" };
    const first = await client.responses.create(request);
    await held.reached;
    const { id } = isQueued ? await client.responses.create(request) : first;
    const watching = eventsOf(await client.responses.retrieve(id, { stream: true }));
    expect(await client.responses.cancel(id)).toMatchObject({ id, status: "cancelled", output: [] });
    expect(await client.responses.cancel(id)).toMatchObject({ status: "cancelled" });
    expect(await client.responses.retrieve(id)).toMatchObject({ status: "cancelled" });
    expect((await watching).at(-1)).toMatchObject({ type: "response.incomplete", response: { status: "cancelled" } });
    expect(await client.responses.stream({ response_id: id }).finalResponse()).toMatchObject({ status: "cancelled" });
    held.open();
  });

  test("that has ended is not changed by a cancel, and one that is waited for cannot be cancelled", async () => {
    const { client } = await createV1Test({ agents: [makeAgent([hello])] });
    const { id } = await client.responses.create({ model: "helper", input: "hi", background: true });
    await client.responses.stream({ response_id: id }).finalResponse();
    expect(await client.responses.cancel(id)).toMatchObject({ status: "completed", output: [{ type: "message" }] });
    const plain = await client.responses.create({ model: "helper", input: "hi" });
    await expect(client.responses.cancel(plain.id)).rejects.toMatchObject({ status: 400 });
  });

  test("is gone once it was deleted, and its run with it", async () => {
    const { client, http } = await createV1Test({ agents: [makeAgent([hello])] });
    const { id } = await client.responses.create({ model: "helper", input: "hi" });
    await client.responses.delete(id);
    await expect(client.responses.retrieve(id)).rejects.toMatchObject({ status: 404 });
    await expect(client.responses.delete(id)).rejects.toMatchObject({ status: 404 });
    await expect(http.drover.get(id).status()).rejects.toMatchObject({ code: "not_found" });
  });

  test("that is deleted while it goes on is cancelled", async () => {
    const held = gate();
    const { client, http } = await createV1Test({ agents: [makeAgent([held.before(hello)])] });
    const { id } = await client.responses.create({ model: "helper", input: "hi", background: true });
    await held.reached;
    const run = http.drover.get(id);
    const ended = run.result();
    await client.responses.delete(id);
    expect(await ended).toMatchObject({ status: "cancelled" });
    held.open();
  });

  test("that is deleted while it is watched ends its stream with an error that the client throws", async () => {
    const held = gate();
    const { client } = await createV1Test({ agents: [makeAgent([held.before(hello)])] });
    const { id } = await client.responses.create({ model: "helper", input: "hi", background: true });
    await held.reached;
    const stream = await client.responses.retrieve(id, { stream: true });
    const watching = eventsOf(stream);
    await client.responses.delete(id);
    await expect(watching).rejects.toMatchObject({ message: expect.stringContaining("deleted") });
    held.open();
  });

  test("lists what it was given, in pages", async () => {
    const { client } = await createV1Test({ agents: [makeAgent([hello])] });
    const input = ["a", "b", "c"].map((content) => ({ role: "user" as const, content }));
    const { id } = await client.responses.create({ model: "helper", input });
    const contents: unknown[] = [];
    for await (const item of client.responses.inputItems.list(id, { order: "asc", limit: 2 })) {
      contents.push((item as { content: unknown }).content);
    }
    const part = (text: string) => [{ type: "input_text", text }];
    expect(contents).toEqual([part("a"), part("b"), part("c")]);
    const newest = await client.responses.inputItems.list(id, { limit: 1 });
    expect(newest.data).toMatchObject([{ content: part("c") }]);
    expect(newest.has_more).toBe(true);
    await expect(client.responses.inputItems.list(id, { limit: 0 })).rejects.toMatchObject({ param: "limit" });
    await expect(client.responses.inputItems.list(id, { after: "x" })).rejects.toMatchObject({ param: "after" });
  });

  test.each(["asc", "desc"] as const)("lists items of one id each once (%s)", async (order) => {
    const { client } = await createV1Test({ agents: [makeAgent([hello])] });
    const input = ["a", "b", "c"].map((content) => ({ id: "msg_1", type: "message" as const, role: "user", content }));
    const { id } = await client.responses.create({ model: "helper", input: input as ResponseInputItem[] });
    const ids: string[] = [];
    for await (const item of client.responses.inputItems.list(id, { order, limit: 1 })) {
      if (ids.push(item.id ?? "") > input.length) break;
    }
    expect(new Set(ids).size).toBe(3);
    expect(ids).toHaveLength(3);
  });

  test("of a run that reached a limit is incomplete, and of one that failed has the reason", async () => {
    const script = [{ toolCalls: [{ name: "look", arguments: { at: "sky" } }] }, hello];
    const limited = makeAgent(script, { tools: [look], maxTurns: 1, name: "limited" });
    const failure = { class: "permanent" as const, code: "bad_key", message: "no such key" };
    const failing = makeAgent([{ fail: failure }], { name: "failing" });
    const { client } = await createV1Test({ agents: [limited, failing] });
    expect(await client.responses.create({ model: "limited", input: "hi" })).toMatchObject({
      status: "incomplete",
      incomplete_details: { reason: "max_turns" },
    });
    const failed = client.responses.stream({ model: "failing", input: "hi" });
    expect(await failed.finalResponse()).toMatchObject({
      status: "failed",
      error: { code: "model_error", message: expect.stringContaining("no such key") },
    });
  });

  test("that waits for a decision says so", async () => {
    const pay = defineTool({
      name: "pay",
      description: "Pays.",
      parameters: z.object({ sum: z.number().describe("how much") }),
      effect: "irreversible",
      execute: () => "paid",
    });
    const script = [{ toolCalls: [{ name: "pay", arguments: { sum: 1 } }] }, hello];
    const { client, http } = await createV1Test({ agents: [makeAgent(script, { tools: [pay] })] });
    const { id } = await client.responses.create({ model: "helper", input: "hi", background: true });
    for await (const event of http.drover.get(id).events()) if (event.type === "approval_asked") break;
    const { status, metadata } = await client.responses.retrieve(id);
    expect(status).toBe("in_progress");
    expect(metadata).toMatchObject({ drover_run_id: id, drover_call_id: "call-1-1" });
    expect(metadata?.drover_waiting_for).toContain("decision");
    await http.drover.get(id).approve("call-1-1");
    const final = await client.responses.stream({ response_id: id }).finalResponse();
    expect(final).toMatchObject({ status: "completed", metadata: {} });
  });

  test("shows no secret, whole or in pieces", async () => {
    const secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH";
    const deltas = ["The key is ", secret.slice(0, 10), secret.slice(10, 30), secret.slice(30), " as asked."];
    const { client } = await createV1Test({ agents: [makeAgent([{ text: deltas.join(""), deltas }])] });
    const stream = client.responses.stream({ model: "helper", input: `my key: ${secret}`, metadata: { note: secret } });
    const events = await eventsOf(stream);
    const { id, output_text: said } = await stream.finalResponse();
    expect(said).toMatch(/^The key is \[redacted: .*\] as asked\.$/);
    expect(textOfAll(events)).toBe(said);
    const items = await client.responses.inputItems.list(id);
    for (const shown of [events, items.data, await client.responses.retrieve(id)]) {
      expect(JSON.stringify(shown)).not.toContain(secret.slice(10, 30));
    }
  });

  test("says nothing of a model's thoughts", async () => {
    const deltas = ["<thi", "nk>hm, ", "hm</think>", "\n\nHello ", "there."];
    const { client } = await createV1Test({ agents: [makeAgent([{ text: deltas.join(""), deltas }])] });
    const stream = client.responses.stream({ model: "helper", input: "hi" });
    const events = await eventsOf(stream);
    expect((await stream.finalResponse()).output_text).toBe("Hello there.");
    expect(textOfAll(events)).toBe("Hello there.");
  });
});
