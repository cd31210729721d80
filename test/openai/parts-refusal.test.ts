import { describe, expect, test } from "vitest";
import { refusedParts, unreachableImage, withoutData } from "../../src/openai/parts-refusal.ts";
import { findQuirk } from "../../src/openai/quirks.ts";
import { readServerError } from "../../src/openai/server-error.ts";

const image = { type: "image_url", image_url: { url: "data:image/png;base64,QUJD" } };
const file = { type: "file", file: { file_data: "data:application/pdf;base64,QUJD" } };
const audio = { type: "input_audio", input_audio: { data: "QUJD", format: "wav" } };
const user = (...parts: unknown[]): { role: string; content: unknown } => ({ role: "user", content: parts });
const words = { type: "text", text: "x" };

function about(
  status: number,
  body: unknown,
  messages = [user(words, image, file, audio)],
  known: string[] = [],
): unknown {
  const raw = typeof body === "string" ? body : JSON.stringify(body);
  return findQuirk(readServerError(status, raw), { model: "m", messages, stream: true }, new Set(known), raw);
}
const said = (message: string, more: object = {}): unknown => ({ error: { message, ...more } });

describe("what servers say when they do not take a kind of content", () => {
  test.each<[string, number, unknown, string]>([
    ["OpenAI", 400, said("Invalid content type. image_url is only supported by certain models."), "part.image_url"],
    [
      "OpenAI, audio",
      400,
      said("Invalid content type. input_audio is only supported by certain models."),
      "part.input_audio",
    ],
    [
      "OpenAI, files",
      400,
      said("This model does not support file content types.", { code: "unsupported_content" }),
      "part.file",
    ],
    [
      "Azure",
      400,
      said("Invalid content type. image_url is only supported by certain models.", {
        param: "messages.[1].content.[1].type",
      }),
      "part.image_url",
    ],
    [
      "vLLM",
      400,
      { object: "error", message: "meta-llama/Llama-3.1-8B-Instruct is not a multimodal model None", code: 400 },
      "part.image_url",
    ],
    ["vLLM, none allowed", 400, said("At most 0 image(s) may be provided in one prompt."), "part.image_url"],
    [
      "llama.cpp",
      500,
      said("image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", {
        code: 500,
        type: "server_error",
      }),
      "part.image_url",
    ],
    [
      "llama.cpp, audio",
      500,
      said("audio input is not supported - hint: if this is unexpected, you may need to provide the mmproj"),
      "part.input_audio",
    ],
    ["Ollama, no projector", 500, said("this model is missing data required for image input"), "part.image_url"],
    ["Ollama", 400, said('"llama3.2" does not support images'), "part.image_url"],
    ["LM Studio", 400, { error: "Model does not support images. Please use a model that does." }, "part.image_url"],
    [
      "LM Studio, no add-on",
      400,
      { error: "Vision add-on is not loaded, but images were provided for processing" },
      "part.image_url",
    ],
    ["Groq", 400, said("messages[0].content must be a string"), "content.parts"],
    [
      "Groq, older",
      400,
      said(
        "'messages.0' : for 'role:user' the following must be satisfied[('messages.0.content' : value must be a string)]",
      ),
      "content.parts",
    ],
    [
      "DeepSeek",
      400,
      said(
        "Failed to deserialize the JSON body into the target type: messages[0]: unknown variant `image_url`, expected `text` at line 1 column 150",
      ),
      "part.image_url",
    ],
    [
      "serde",
      422,
      "Failed to deserialize the JSON body into the target type: messages[0].content: invalid type: sequence, expected a string at line 1 column 60",
      "content.parts",
    ],
    [
      "Mistral",
      400,
      { object: "error", message: "Image input is not enabled for this model", type: "invalid_request_error" },
      "part.image_url",
    ],
    ["Fireworks", 400, said("This model does not support image inputs"), "part.image_url"],
    ["Together", 400, said("Model x does not support multimodal inputs"), "part.image_url"],
    [
      "a Cerebras-like server",
      400,
      { message: "Only text content is supported.", type: "invalid_request_error" },
      "part.image_url",
    ],
    ["OpenRouter", 404, said("No endpoints found that support image input", { code: 404 }), "part.image_url"],
    ["OpenRouter, audio", 404, said("No endpoints found that support input audio", { code: 404 }), "part.input_audio"],
    [
      "a provider behind OpenRouter",
      400,
      said("Provider returned error", {
        code: 400,
        metadata: { raw: JSON.stringify(said("this model does not support image input")) },
      }),
      "part.image_url",
    ],
    ["Gemini", 400, [said("Image input modality is not enabled for models/gemma-3-1b-it")], "part.image_url"],
    ["Gemini, files", 400, [said("Invalid content part type: file")], "part.file"],
    [
      "pydantic, a part",
      422,
      {
        detail: [
          { loc: ["body", "messages", 0, "content", 1, "type"], msg: "Input should be 'text'", input: "image_url" },
        ],
      },
      "part.image_url",
    ],
    [
      "pydantic, in words",
      400,
      "Input should be 'file' [type=literal_error, input_value='image_url', input_type=str]",
      "part.image_url",
    ],
    [
      "pydantic, a string",
      422,
      {
        detail: [
          { type: "string_type", loc: ["body", "messages", 0, "content"], msg: "Input should be a valid string" },
        ],
      },
      "content.parts",
    ],
    [
      "Go",
      400,
      said("json: cannot unmarshal array into Go struct field ChatMessage.messages.content of type string"),
      "content.parts",
    ],
    ["zod", 400, said("messages.0.content: Invalid input: expected string, received array"), "content.parts"],
    ["a template", 500, said('can only concatenate str (not "list") to str'), "content.parts"],
  ])("%s", (_server, status, body, quirk) => {
    expect(about(status, body)).toBe(quirk);
    // Known already, it is not learned again.
    expect(about(status, body, undefined, [quirk])).not.toBe(quirk);
  });

  test("what takes nothing but text refuses one type after the other", () => {
    const refusal = said("x is not a multimodal model");
    expect(about(400, refusal, undefined, ["part.image_url"])).toBe("part.file");
    expect(about(400, refusal, undefined, ["part.image_url", "part.file"])).toBe("part.input_audio");
  });

  test.each<[string, number, string]>([
    [
      "a format",
      400,
      "You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp'].",
    ],
    ["an unsupported format", 400, "Unsupported image format: image/tiff"],
    ["a format that is not supported", 400, "This model does not support image formats other than PNG."],
    ["a size", 400, "This server does not support images larger than 20 MB"],
    ["bytes that are none", 400, "Invalid image data"],
    ["a media type", 400, "Image does not match the provided media type image/png"],
    ["the rate", 429, "image input is not supported"],
    ["the key", 401, "image input is not supported"],
  ])("a complaint about %s says nothing about the next image", (_what, status, message) => {
    expect(refusedParts(readServerError(status, JSON.stringify(said(message))), [user(image)], message)).toEqual([]);
  });

  test("nothing is learned of what was not sent", () => {
    expect(about(400, said("image input is not supported"), [user(words)])).toBeUndefined();
    expect(about(400, said("messages[0].content must be a string"), [{ role: "user", content: "x" }])).toBeUndefined();
  });

  test("the message that is named decides which form of content was refused", () => {
    const calls = { role: "assistant", content: null, tool_calls: [{}] };
    const refusal = (index: number): unknown => said(`messages[${index}].content must be a string`);
    expect(about(400, refusal(1), [user(words), calls])).toBe("content.null");
    expect(about(400, refusal(0), [user(words), calls])).toBe("content.parts");
  });
});

describe("where roles must alternate", () => {
  const messages = [{ role: "user", content: "x" }, { role: "tool", content: "y" }, user(words, image)];
  test.each<[string, number, string]>([
    [
      "a template",
      500,
      "Jinja Exception: After the optional system message, conversation roles must alternate user and assistant roles except for tool calls and results.",
    ],
    ["Mistral", 400, "Unexpected role 'user' after role 'tool'"],
  ])("%s", (_server, status, message) => {
    expect(about(status, said(message), messages)).toBe("results.shown");
    const bridged = [messages[1] ?? user(), { role: "assistant", content: "-" }, user(words, image)];
    expect(about(status, said(message), bridged, ["results.shown"])).toBe("results.bridged");
    expect(about(status, said(message), [user(image)])).toBeUndefined();
  });
});

describe("an image that the server cannot fetch", () => {
  const remote = (host: string): unknown => ({
    type: "image_url",
    image_url: { url: `https://${host}/a.png?key=secret` },
  });
  const failureOf = (message: string, ...parts: unknown[]): unknown =>
    unreachableImage(
      readServerError(400, JSON.stringify(said(message))),
      [user(words, ...parts)],
      message,
      "model.example",
    );

  test.each([
    "Error while downloading https://pics.example/a.png?key=secret.",
    "Timeout while downloading https://pics.example/a.png?key=secret.",
    "Failed to fetch image: 404",
    "Cannot connect to host pics.example:443 ssl:default",
    "Unable to access image URL",
    "The image could not be downloaded",
  ])("%s", (message) => {
    const failure = failureOf(message, remote("pics.example"));
    expect(failure).toMatchObject({ class: "permanent", code: "image_unreachable", status: 400 });
    expect(failure).toMatchObject({ message: expect.stringContaining("could not fetch an image from pics.example") });
    expect(JSON.stringify(failure)).not.toContain("secret");
  });

  test("of several the one that is named, else all", () => {
    const both = [remote("a.example"), remote("b.example")];
    expect(failureOf("Error while downloading https://b.example/a.png", ...both)).toMatchObject({
      message: expect.stringContaining("from b.example."),
    });
    expect(failureOf("Error while downloading the image", ...both)).toMatchObject({
      message: expect.stringContaining("from a.example or b.example."),
    });
  });

  test("nothing else is taken for it", () => {
    expect(failureOf("Error while downloading the image", image)).toBeUndefined();
    expect(failureOf("Invalid temperature", remote("pics.example"))).toBeUndefined();
  });
});

test("data that a server quotes is taken out", () => {
  const data = "QUJD".repeat(100);
  expect(withoutData(`bad: data:image/png;base64,${data} here`)).toBe("bad: [data] here");
  expect(withoutData(`bad: ${data}==`)).toBe("bad: [data]");
  expect(withoutData("Unsupported parameter: 'temperature'")).toBe("Unsupported parameter: 'temperature'");
});
