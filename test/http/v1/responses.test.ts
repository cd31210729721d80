import { expect, test } from "vitest";
import { createV1Test, makeAgent } from "./support.ts";

test("a response is created, waited for and retrieved", async () => {
  const { client } = await createV1Test({
    agents: [makeAgent([{ text: "Hello there.", deltas: ["Hello ", "there."] }])],
  });
  const response = await client.responses.create({ model: "helper", input: "hi", metadata: { order: "7" } });
  expect(response).toMatchObject({ status: "completed", output_text: "Hello there.", metadata: { order: "7" } });
  expect(await client.responses.retrieve(response.id)).toEqual(response);
});

test("a response is streamed by the helper", async () => {
  const { client } = await createV1Test({
    agents: [makeAgent([{ text: "Hello there.", deltas: ["Hello ", "there."] }])],
  });
  const stream = client.responses.stream({ model: "helper", input: "hi" });
  const types: string[] = [];
  for await (const event of stream) types.push(event.type);
  const final = await stream.finalResponse();
  expect(final.output_text).toBe("Hello there.");
  expect(types).toMatchInlineSnapshot(`
    [
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.completed",
    ]
  `);
});
