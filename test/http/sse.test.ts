// Catches: a frame that is lost or doubled because a comment went out at the moment in which it came.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { answerEvents, toFrame } from "../../src/http/sse.ts";

test("each frame comes once and in order, with comments at any moment between", async () => {
  async function* frames(): AsyncGenerator<string> {
    for (let index = 0; index < 300; index += 1) {
      if (index % 3 !== 0) await sleep(index % 5);
      yield toFrame({ data: String(index) });
    }
  }
  let ended = 0;
  const response = answerEvents(frames(), { heartbeatMs: 1, retryMs: 5, onEnd: () => (ended += 1) });
  const text = await response.text();
  const numbers = [...text.matchAll(/^data: (\d+)$/gm)].map(([, number]) => Number(number));
  expect(numbers).toEqual(Array.from({ length: 300 }, (_, index) => index));
  expect(text).toContain(": ping\n\n");
  expect(text.startsWith("retry: 5\n\n")).toBe(true);
  expect(ended).toBe(1);
});

test("a frame is one event, whatever line ends its data has", () => {
  expect(toFrame({ id: "3", event: "text", data: "a\r\nb\rc\n" })).toBe(
    "id: 3\nevent: text\ndata: a\ndata: b\ndata: c\ndata: \n\n",
  );
});

test("frames that fail end the stream", async () => {
  async function* frames(): AsyncGenerator<string> {
    yield toFrame({ data: "one" });
    throw new Error("inside");
  }
  expect(await answerEvents(frames(), { heartbeatMs: 1_000 }).text()).toBe("data: one\n\n");
});
