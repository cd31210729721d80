import { describe, expect, test } from "vitest";
import { scriptedModel } from "../../src/testing/scripted-model.ts";
import { contractRequest, contractScript, describeModelClient } from "../contract/model-client.contract.ts";

describeModelClient("scripted", async () => ({
  client: scriptedModel(contractScript).client,
  stop: async () => {},
}));

describe("scriptedModel", () => {
  test("answers by turn, from text, data or a function of the request", async () => {
    const model = scriptedModel([
      "one",
      { text: "two", usage: { inputTokens: 7 }, finishReason: "length" },
      ({ turn, messages }) => `${turn} of ${messages.length}`,
    ]);
    expect(await model.client.call(contractRequest(3))).toMatchObject({ reply: { content: "3 of 3" } });
    expect(await model.client.call(contractRequest(1))).toMatchObject({
      reply: { content: "one" },
      finishReason: "stop",
    });
    expect(await model.client.call(contractRequest(2))).toMatchObject({
      reply: { content: "two" },
      finishReason: "length",
      usage: { inputTokens: 7 },
    });
  });

  test("says which turns it was asked for, and which not", async () => {
    const model = scriptedModel(["one", "two"]);
    expect(model.leftover()).toEqual([1, 2]);
    await model.client.call(contractRequest(2));
    expect(model.leftover()).toEqual([1]);
    expect(model.requests).toEqual([{ runId: "run-a", turn: 2, attempt: 1 }]);
  });

  test("a turn beyond the script fails for good", async () => {
    const outcome = await scriptedModel(["one"]).client.call(contractRequest(2));
    expect(outcome).toMatchObject({
      type: "failure",
      failure: { class: "permanent", code: "script_exhausted", message: expect.stringMatching(/turn 2.*has 1 turn/) },
    });
  });

  test("a single failure fails every attempt", async () => {
    const failure = { class: "transient" as const, code: "down", message: "down" };
    const { client } = scriptedModel([{ fail: failure }]);
    for (const attempt of [1, 2, 9]) {
      expect(await client.call(contractRequest(1, { attempt }))).toMatchObject({ type: "failure", failure });
    }
  });
});
