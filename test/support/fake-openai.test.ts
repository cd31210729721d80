import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type FakeAnswer, startFakeOpenai, turnOf } from "./fake-openai.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "fake-openai-"));
});
afterEach(() => rm(directory, { recursive: true }));

function post(url: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  return fetch(`${url}/chat/completions`, {
    method: "POST",
    body: JSON.stringify(body),
    ...(signal ? { signal } : {}),
  });
}

test("writes one line per request into its ledger, before it answers", async () => {
  const ledger = join(directory, "ledger.jsonl");
  const server = await startFakeOpenai({ ledger, respond: ({ body }) => `turn ${turnOf(body)}` });
  const first = { model: "m", messages: [{ role: "user", content: "hi" }] };
  const second = { model: "m", messages: [...first.messages, { role: "assistant", content: "turn 1" }] };
  const answers = [];
  for (const body of [first, second]) answers.push(await (await post(server.url, body)).json());
  expect(answers).toMatchObject([
    { choices: [{ message: { content: "turn 1" }, finish_reason: "stop" }] },
    { choices: [{ message: { content: "turn 2" } }] },
  ]);
  const lines = (await readFile(ledger, "utf8")).trim().split("\n");
  expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject([
    { index: 0, turn: 1, body: first },
    { index: 1, turn: 2, body: second },
  ]);
  await server.stop();
});

test("tells when a request came and when its client went away, and can wait with its answer", async () => {
  const gate = Promise.withResolvers<FakeAnswer>();
  const server = await startFakeOpenai({ respond: ({ index }) => (index === 0 ? gate.promise : "second") });
  const controller = new AbortController();
  const body = { model: "m", messages: [], stream: true };
  const gone = post(server.url, body, controller.signal);
  expect(await server.received(0)).toMatchObject({ index: 0, body });
  controller.abort();
  await expect(gone).rejects.toThrow(/abort/);
  expect(await server.closedBy(0)).toBeGreaterThan(0);
  gate.resolve("too late");
  expect(await (await post(server.url, body)).text()).toMatch(/second.*\[DONE\]/s);
  expect(server.requests).toHaveLength(2);
  await server.stop();
});
