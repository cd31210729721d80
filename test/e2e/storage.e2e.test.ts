// Catches: a run whose storage grows with its history, or holds its content more than once.
import { expect, test } from "vitest";
import { type Message, textOf } from "../../src/core/message.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { makeWorld, type World } from "../support/world.ts";

const turns = 101;
const resultBytes = 5_000;
const chatBytesPerTurn = 8_300; // 840 KB in all, about 209,000 tokens

/** Words that do not repeat, so that no store can make them smaller. */
function prose(seed: number, bytes: number): string {
  let state = seed * 2_654_435_761 + 1;
  let text = "";
  while (text.length < bytes) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    text += `${state.toString(36)} `;
  }
  return text.slice(0, bytes);
}

function respond({ body }: FakeRequest): FakeReply {
  const turn = turnOf(body);
  const text = prose(turn, chatBytesPerTurn);
  if (turn === turns) return { text };
  return { text, toolCalls: [{ name: "look", arguments: { note: `n${turn}`, bytes: resultBytes } }] };
}

/** Bytes of what was said and done: texts, results as a whole, arguments. */
function contentBytes(messages: readonly Message[]): number {
  const cutBytes = messages.reduce(
    (sum, message) => sum + (message.role === "tool" ? (message.full?.bytes ?? 0) : 0),
    0,
  );
  const isCut = (message: Message): boolean => message.role === "tool" && message.full !== undefined;
  const texts = messages
    .flatMap((message) => [
      isCut(message) ? "" : textOf(message.content),
      ...(message.role === "assistant" ? (message.toolCalls ?? []).map((call) => call.arguments) : []),
    ])
    .reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  return cutBytes + texts;
}

/** Bytes in Redis by key, the live text left out. */
async function storedBytes(world: World, runId: string): Promise<Map<string, number>> {
  const { head, live } = world.keys.run(runId);
  const sizes = new Map<string, number>();
  for await (const keys of world.redis.scanStream({ match: `${world.prefix}:*${runId}*`, count: 1_000 })) {
    for (const key of keys as string[]) {
      if (key === live) continue;
      sizes.set(key.slice(head.length), Number(await world.redis.call("MEMORY", "USAGE", key, "SAMPLES", "0")));
    }
  }
  return sizes;
}

test.each([
  ["steps as they come", false],
  ["steps with every step redelivered", true],
])(
  "[D3] a run of 209k tokens of chat and 100 results of 5 KB takes at most 1.3 times its content and 4 KB, %s",
  async (_mode, redeliver) => {
    const world = await makeWorld({ respond, redeliver, maxTurns: turns });
    await world.work();
    const run = await world.drover.start("e2e", "go", { runId: "storage-1" });
    expect(await run.result({ timeoutMs: 90_000 })).toMatchObject({ status: "completed", turns });
    const messages = await run.transcript();
    expect(messages.filter((message) => message.role === "tool").length).toBe(turns - 1);
    const content = contentBytes(messages);
    expect(content).toBeGreaterThan(1_300_000);
    const sizes = await storedBytes(world, run.id);
    const stored = [...sizes.values()].reduce((sum, bytes) => sum + bytes, 0);
    const byKey = [...sizes].map(([key, bytes]) => `${key || "head"} ${bytes}`).join(", ");
    process.stdout.write(
      `storage: ${stored} bytes for ${content} of content, ratio ${(stored / content).toFixed(3)} (${byKey})\n`,
    );
    expect(stored).toBeLessThanOrEqual(content * 1.3 + 4_096);
  },
);

test("[D3] results that are cut for the model are kept once, whole", async () => {
  const calls = 10;
  const bytes = 300_000;
  const world = await makeWorld({
    respond: ({ body }) =>
      turnOf(body) > calls
        ? { text: "done" }
        : { toolCalls: [{ name: "look", arguments: { note: prose(turnOf(body), 20_000), bytes } }] },
  });
  await world.work();
  const run = await world.drover.start("e2e", "go", { runId: "storage-2" });
  expect(await run.result({ timeoutMs: 60_000 })).toMatchObject({ status: "completed" });
  const content = contentBytes(await run.transcript());
  expect(content).toBeGreaterThan(calls * bytes);
  const stored = [...(await storedBytes(world, run.id)).values()].reduce((sum, size) => sum + size, 0);
  expect(stored).toBeLessThanOrEqual(content * 1.3 + 4_096);
});
