// Catches: a conversation whose history is lost, said twice, or mixed with another's.
import { describe, expect, test } from "vitest";
import type { Message } from "../../../src/core/message.ts";
import { textOf } from "../../../src/core/message.ts";
import type { ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { createV1Test, gate, makeAgent } from "./support.ts";

/** Notes what each call of the model was given, as `role: text`, and answers with the last user's words. */
function makeEcho(seen: string[][]): ReturnType<typeof makeAgent> {
  const reply: ScriptedReply = ({ messages }) => {
    seen.push(messages.map(toLine));
    const last = messages.findLast(({ role }) => role === "user");
    return `echo of ${textOf(last?.content ?? "")}`;
  };
  return makeAgent([reply, reply]);
}

function toLine(message: Message): string {
  const calls = message.role === "assistant" ? (message.toolCalls ?? []).map(({ id, name }) => ` ${name}#${id}`) : [];
  return `${message.role}: ${textOf(message.content)}${calls.join("")}`;
}

describe("going on from a response", () => {
  test("over three responses keeps one history, in one session", async () => {
    const seen: string[][] = [];
    const { client, http } = await createV1Test({ agents: [makeEcho(seen)] });
    const first = await client.responses.create({ model: "helper", input: "one" });
    const second = await client.responses.create({ model: "helper", input: "two", previous_response_id: first.id });
    const third = await client.responses.create({ model: "helper", input: "three", previous_response_id: second.id });
    expect(third).toMatchObject({ output_text: "echo of three", previous_response_id: second.id });
    expect(seen.at(-1)).toEqual([
      "user: one",
      "assistant: echo of one",
      "user: two",
      "assistant: echo of two",
      "user: three",
    ]);
    const { runs } = await http.drover.list({ session: first.id });
    expect(runs.map(({ runId }) => runId).toSorted()).toEqual([first.id, second.id, third.id].toSorted());
  });

  test("twice from the same one gives two histories that know nothing of each other", async () => {
    const seen: string[][] = [];
    const { client } = await createV1Test({ agents: [makeEcho(seen)] });
    const root = await client.responses.create({ model: "helper", input: "root" });
    const go = (input: string, previous: string) =>
      client.responses.create({ model: "helper", input, previous_response_id: previous });
    const [left, right] = await Promise.all([go("left", root.id), go("right", root.id)]);
    const [leftmost] = await Promise.all([go("leftmost", left.id), go("rightmost", right.id)]);
    await go("late", left.id);
    const histories = seen.map((lines) => lines.filter((line) => line.startsWith("user")).join(", "));
    expect(histories.toSorted()).toEqual(
      [
        "user: root",
        "user: root, user: left",
        "user: root, user: right",
        "user: root, user: left, user: leftmost",
        "user: root, user: right, user: rightmost",
        "user: root, user: left, user: late",
      ].toSorted(),
    );
    expect(leftmost.output_text).toBe("echo of leftmost");
  });

  test("instructions are for one response, and are not said twice", async () => {
    const seen: string[][] = [];
    const { client, http } = await createV1Test({ agents: [makeEcho(seen)] });
    const ask = (input: string, instructions: string | null, previous?: string) =>
      client.responses.create({
        model: "helper",
        input,
        instructions,
        ...(previous ? { previous_response_id: previous } : {}),
      });
    const one = await ask("one", "Be brief.");
    expect(one.instructions).toBe("Be brief.");
    const two = await ask("two", "Be brief.", one.id);
    const three = await ask("three", "Be kind.", two.id);
    await ask("four", null, three.id);
    expect(seen.map((lines) => lines.filter((line) => !line.startsWith("assistant")))).toEqual([
      ["developer: Be brief.", "user: one"],
      ["developer: Be brief.", "user: one", "user: two"],
      ["developer: Be kind.", "user: one", "user: two", "user: three"],
      ["user: one", "user: two", "user: three", "user: four"],
    ]);
    expect((await http.drover.list({ session: one.id })).runs).toHaveLength(2);
  });

  test("waits for its end, and for a response that there is", async () => {
    const held = gate();
    const { client } = await createV1Test({ agents: [makeAgent([held.before("Hello.")])] });
    const { id } = await client.responses.create({ model: "helper", input: "hi", background: true });
    const early = client.responses.create({ model: "helper", input: "more", previous_response_id: id });
    await expect(early).rejects.toMatchObject({ status: 400, code: "previous_response_not_ended" });
    const nowhere = client.responses.create({ model: "helper", input: "more", previous_response_id: "resp_none" });
    await expect(nowhere).rejects.toMatchObject({ status: 400, code: "previous_response_not_found" });
    held.open();
  });

  test("by references to items, without naming the response", async () => {
    const seen: string[][] = [];
    const { client } = await createV1Test({ agents: [makeEcho(seen)] });
    const first = await client.responses.create({ model: "helper", input: "one" });
    const id = first.output[0]?.id ?? "";
    await client.responses.create({
      model: "helper",
      input: [
        { role: "user", content: "one" },
        { type: "item_reference", id },
        { role: "user", content: "two" },
      ],
    });
    expect(seen.at(-1)).toEqual(["user: one", "assistant: echo of one", "user: two"]);
    const unknown = client.responses.create({ model: "helper", input: [{ type: "item_reference", id: "msg_none" }] });
    await expect(unknown).rejects.toMatchObject({ status: 400, param: "input[0]" });
  });

  test("by the name that an item had in a stream which had begun otherwise", async () => {
    const heard = Promise.withResolvers<void>();
    const seen: string[][] = [];
    const agent = makeAgent([
      async (request) => {
        seen.push(request.messages.map(toLine));
        if (seen.length > 1) return "ok";
        request.onText("This is not what it comes to. ");
        await heard.promise;
        return { text: "But this is.", deltas: [] };
      },
    ]);
    const { client } = await createV1Test({ agents: [agent] });
    const stream = client.responses.stream({ model: "helper", input: "one" });
    stream.on("response.output_text.delta", () => heard.resolve());
    const { id, output } = await stream.finalResponse();
    expect(output).toMatchObject([{ content: [{ text: "But this is." }] }]);
    const item = { type: "item_reference" as const, id: output[0]?.id ?? "" };
    await client.responses.create({ model: "helper", input: [item, { role: "user", content: "two" }] });
    expect(seen.at(-1)?.slice(-2)).toEqual(["assistant: But this is.", "user: two"]);
    expect((await client.responses.retrieve(id)).output_text).toBe("But this is.");
  });

  test("in a conversation runs take turns in one history, and a response of it can be gone on from", async () => {
    const seen: string[][] = [];
    const { client } = await createV1Test({ agents: [makeEcho(seen)] });
    const ask = (input: string) => client.responses.create({ model: "helper", input, conversation: "conv_1" });
    const first = await ask("one");
    await ask("two");
    await client.responses.create({ model: "helper", input: "else", previous_response_id: first.id });
    expect(first.conversation).toEqual({ id: "conv_1" });
    expect(seen.slice(1).map((lines) => lines.filter((line) => line.startsWith("user")))).toEqual([
      ["user: one", "user: two"],
      ["user: one", "user: else"],
    ]);
  });
});
