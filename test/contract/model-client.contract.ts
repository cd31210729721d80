import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ModelClient, ModelFailure, ModelOutcome, ModelRequest } from "../../src/ports.ts";

/** What the model under test is to do in one turn. */
export type ContractTurn = {
  deltas?: string[];
  toolCalls?: { name: string; arguments: Record<string, unknown> }[];
  delayMs?: number;
  /** Outcomes of the attempts 1, 2, …; the turn is answered after them. */
  fail?: ModelFailure[];
};

export type ModelClientSubject = { client: ModelClient; stop(): Promise<void> };

/** The script: the n-th entry is turn n. */
export const contractScript: ContractTurn[] = [
  {
    toolCalls: [
      { name: "add", arguments: { a: 1, b: 2 } },
      { name: "files.read", arguments: {} },
    ],
  },
  { deltas: ["The sum ", "is ", "3."] },
  { deltas: ["late"], delayMs: 60_000 },
  { deltas: ["at last"], fail: [{ class: "transient", code: "x", message: "down" }] },
  { fail: [{ class: "permanent", code: "x", message: "no" }] },
  { fail: [{ class: "overflow", code: "x", message: "too long" }] },
];

/** A request for a turn of the script. Earlier answers are in it, as they would be. */
export function contractRequest(turn: number, fields: Partial<ModelRequest> = {}): ModelRequest {
  const answers = Array.from({ length: turn - 1 }, (_, index) => ({
    role: "assistant" as const,
    content: `answer ${index + 1}`,
  }));
  const tool = (name: string): ModelRequest["tools"][number] => ({
    name,
    description: name,
    parameters: { type: "object" },
  });
  return {
    runId: "run-a",
    turn,
    attempt: 1,
    instructions: "You help.",
    messages: [{ role: "user", content: "hi" }, ...answers],
    tools: [tool("add"), tool("files.read")],
    request: {},
    signal: new AbortController().signal,
    onText: () => {},
    ...fields,
  };
}

function expectSoundUsage({ usage }: ModelOutcome): void {
  for (const count of [usage.inputTokens, usage.outputTokens, usage.cachedTokens]) {
    expect(Number.isInteger(count) && count >= 0).toBe(true);
  }
}

/** Registers the tests that every model client must pass. `create` makes one that plays `contractScript`. */
export function describeModelClient(name: string, create: () => Promise<ModelClientSubject>): void {
  describe(`model client: ${name}`, () => {
    let subject: ModelClientSubject;
    beforeEach(async () => {
      subject = await create();
    });
    afterEach(() => subject.stop());

    test("calls come with the names of the offered tools and arguments as JSON text", async () => {
      const outcome = await subject.client.call(contractRequest(1));
      expect(outcome).toMatchObject({ type: "reply", dropped: [] });
      const calls = outcome.type === "reply" ? outcome.reply.toolCalls : [];
      expect(calls.map((call) => [call.name, JSON.parse(call.arguments)])).toEqual([
        ["add", { a: 1, b: 2 }],
        ["files.read", {}],
      ]);
      expectSoundUsage(outcome);
    });

    test("text is told piece by piece and is the reply's content", async () => {
      const pieces: string[] = [];
      const outcome = await subject.client.call(contractRequest(2, { onText: (text) => pieces.push(text) }));
      expect(outcome).toMatchObject({ type: "reply", finishReason: "stop", reply: { content: "The sum is 3." } });
      expect(pieces).toEqual(["The sum ", "is ", "3."]);
      expectSoundUsage(outcome);
    });

    test("the same turn is answered alike again", async () => {
      const { reply, type } = { reply: undefined, ...(await subject.client.call(contractRequest(2))) };
      expect(await subject.client.call(contractRequest(2))).toMatchObject({ type, reply });
    });

    test("an abort ends the call at once", async () => {
      const controller = new AbortController();
      const outcome = subject.client.call(contractRequest(3, { signal: controller.signal }));
      const abortedAt = performance.now();
      controller.abort();
      expect(await outcome).toMatchObject({ type: "failure", failure: { class: "aborted", code: "aborted" } });
      expect(performance.now() - abortedAt).toBeLessThan(1_000);
      expectSoundUsage(await outcome);
    });

    test("a call that is aborted before it begins does not begin", async () => {
      const outcome = await subject.client.call(contractRequest(2, { signal: AbortSignal.abort() }));
      expect(outcome).toMatchObject({ type: "failure", failure: { class: "aborted" } });
    });

    test("a transient failure is told as one, and the next attempt is answered", async () => {
      const first = await subject.client.call(contractRequest(4, { attempt: 1 }));
      expect(first).toMatchObject({ type: "failure", failure: { class: "transient" } });
      expectSoundUsage(first);
      const second = await subject.client.call(contractRequest(4, { attempt: 2 }));
      expect(second).toMatchObject({ type: "reply", reply: { content: "at last" } });
    });

    test.each<[number, ModelFailure["class"]]>([
      [5, "permanent"],
      [6, "overflow"],
    ])("turn %i fails as %s", async (turn, kind) => {
      const outcome = await subject.client.call(contractRequest(turn));
      expect(outcome).toMatchObject({ type: "failure", failure: { class: kind, message: expect.stringMatching(/./) } });
    });
  });
}
