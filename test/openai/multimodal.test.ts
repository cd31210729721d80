import { expect, onTestFinished, test } from "vitest";
import type { ContentPart, Message } from "../../src/core/message.ts";
import { type OpenAIOptions, openai } from "../../src/openai/openai.ts";
import type { ModelOutcome } from "../../src/ports.ts";
import { contractRequest } from "../contract/model-client.contract.ts";
import { type FakeAnswer, type FakeOpenAI, type FakeRequest, startFakeOpenai } from "../support/fake-openai.ts";

const image: ContentPart = { type: "image_url", image_url: { url: "data:image/png;base64,QUJD" } };
const remote: ContentPart = { type: "image_url", image_url: { url: "https://pics.example/a.png?key=secret" } };
const pdf: ContentPart = { type: "file", file: { filename: "r.pdf", file_data: "data:application/pdf;base64,QUJD" } };

type Started = { ask: (...parts: ContentPart[]) => Promise<ModelOutcome>; fake: FakeOpenAI };

async function start(
  respond: (request: FakeRequest) => FakeAnswer,
  options: Partial<OpenAIOptions> = {},
): Promise<Started> {
  const fake = await startFakeOpenai({ respond });
  onTestFinished(() => fake.stop());
  const { client } = openai({ model: "m", baseURL: fake.url, apiKey: "test-key", ...options });
  const ask = (...content: ContentPart[]): Promise<ModelOutcome> => {
    const messages: Message[] = [{ role: "user", content }];
    return client.call(contractRequest(1, { tools: [], messages }));
  };
  return { ask, fake };
}

const holds = ({ body }: FakeRequest, type: string): boolean => JSON.stringify(body).includes(`"${type}"`);

test("what was declared is never tried otherwise", async () => {
  const { ask, fake } = await start(() => "ok", { accepts: ["text", "file"] });
  expect(await ask(image, pdf)).toMatchObject({ type: "reply", dropped: ["part.image_url", "part.input_audio"] });
  expect(fake.requests).toHaveLength(1);
  expect(fake.requests.map((request) => [holds(request, "image_url"), holds(request, "file")])).toEqual([
    [false, true],
  ]);
});

test("everything declared is the same as nothing", async () => {
  const { ask, fake } = await start(() => "ok", { accepts: ["text", "image", "file", "audio"] });
  expect(await ask(image)).toMatchObject({ dropped: [] });
  expect(fake.requests.map((request) => holds(request, "image_url"))).toEqual([true]);
});

test("a kind that there is not is refused with the others named", () => {
  expect(() => openai({ model: "m", accepts: ["video" as never] })).toThrow(/accepts\.0/);
});

test("one server, one lesson for each kind; a refusal inside a 200 is one too", async () => {
  const said = (message: string): FakeAnswer => ({ status: 200, body: { error: { message, code: 400 } } });
  const { ask, fake } = await start(
    (request) => {
      if (holds(request, "image_url")) return said("This model does not support image input");
      return holds(request, "file") ? said("Invalid content part type: file") : "ok";
    },
    { stream: false },
  );
  expect(await ask(image, pdf)).toMatchObject({ type: "reply", dropped: ["part.image_url", "part.file"] });
  expect(await ask(image, pdf)).toMatchObject({ type: "reply" });
  expect(fake.requests).toHaveLength(4);
});

test("an image that the server cannot fetch is a permanent failure that names its host", async () => {
  const message = "Error while downloading https://pics.example/a.png?key=secret.";
  const { ask, fake } = await start(() => ({ status: 400, body: { error: { message, code: "invalid_image_url" } } }));
  const outcome = await ask(remote);
  expect(outcome).toMatchObject({
    type: "failure",
    failure: { class: "permanent", code: "image_unreachable", message: expect.stringContaining("from pics.example.") },
  });
  expect(JSON.stringify(outcome)).not.toContain("secret");
  expect(fake.requests).toHaveLength(1);
});

test("data that a server quotes does not come back in the failure", async () => {
  const data = `data:image/png;base64,${"QUJD".repeat(50)}`;
  const { ask } = await start(() => ({ status: 400, body: { error: { message: `Cannot decode ${data}` } } }));
  const outcome = await ask(image);
  expect(outcome).toMatchObject({ type: "failure", failure: { message: expect.stringContaining("[data]") } });
  expect(JSON.stringify(outcome)).not.toContain("QUJDQUJD");
});
