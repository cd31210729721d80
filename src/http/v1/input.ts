import type { ContentPart } from "../../core/message.ts";
import { problemsOfPart } from "../../core/parts.ts";
import { misfit, type Path, readContent } from "./content.ts";
import { toParam } from "./request.ts";

// Input items of the Responses API as messages of a transcript.

export type Said = {
  type: "message";
  role: "system" | "developer" | "user" | "assistant";
  content: string | ContentPart[];
};
export type Called = { type: "call"; id: string; name: string; arguments: string };
/** `value`: the result, as text or parts. */
export type Answered = { type: "result"; id: string; value: string | ContentPart[]; param: string };
export type Reference = { type: "reference"; id: string; param: string };
export type InputEntry = Said | Called | Answered | Reference;

type Item = Record<string, unknown>;

/** @throws V1Error naming the item and the field that does not fit. */
export function readInput(input: string | readonly Item[]): InputEntry[] {
  if (typeof input === "string") return [{ type: "message", role: "user", content: input }];
  return input.flatMap((item, index) => readItem(item, ["input", index]));
}

function readItem(item: Item, path: Path): InputEntry[] {
  const { type = "message" } = item;
  switch (type) {
    case "message":
      return [readMessage(item, path)];
    case "function_call":
      return [
        {
          type: "call",
          id: text(item, "call_id", path),
          name: text(item, "name", path),
          arguments: text(item, "arguments", path),
        },
      ];
    case "function_call_output":
      return [
        {
          type: "result",
          id: text(item, "call_id", path),
          value: readOutput(item.output, [...path, "output"]),
          param: toParam(path),
        },
      ];
    case "item_reference":
      return [{ type: "reference", id: text(item, "id", path), param: toParam(path) }];
    case "reasoning":
      // A model's thoughts are not carried from one run to the next.
      return [];
    default:
      throw misfit([...path, "type"], `items of type ${JSON.stringify(type)} are not taken`);
  }
}

const roles = ["system", "developer", "user", "assistant"] as const;

function readMessage(item: Item, path: Path): Said {
  const role = roles.find((known) => known === item.role);
  if (!role) throw misfit([...path, "role"], `must be one of ${roles.join(", ")}`);
  return { type: "message", role, content: readContent(item.content, [...path, "content"], readPart) };
}

function readOutput(output: unknown, path: Path): string | ContentPart[] {
  if (typeof output === "string") return output;
  if (Array.isArray(output) && output.length === 0) return "";
  return readContent(output, path, readPart);
}

function readPart(given: unknown, path: Path): ContentPart {
  const part = (typeof given === "object" && given !== null ? given : {}) as Item;
  const made = toPart(part, path);
  const [problem] = problemsOfPart(made);
  if (problem) throw misfit([...path, fieldNames[problem.path.join(".")] ?? problem.path.join(".")], problem.message);
  return made;
}

/** How the fields of parts are called in this API. */
const fieldNames: Record<string, string> = {
  text: "text",
  refusal: "refusal",
  "image_url.url": "image_url",
  "file.file_data": "file_data",
};

function toPart(part: Item, path: Path): ContentPart {
  switch (part.type) {
    case "input_text":
    case "output_text":
    case "text":
      return { type: "text", text: part.text };
    case "refusal":
      return { type: "refusal", refusal: part.refusal };
    case "input_image": {
      if (part.file_id) throw misfit([...path, "file_id"], "files are not kept here; give image_url");
      const detail = part.detail ? { detail: part.detail } : {};
      return { type: "image_url", image_url: { url: part.image_url, ...detail } };
    }
    case "input_file": {
      if (part.file_id) throw misfit([...path, "file_id"], "files are not kept here; give file_data");
      if (part.file_url) throw misfit([...path, "file_url"], "files are not fetched; give file_data");
      return {
        type: "file",
        file: { file_data: part.file_data, ...(part.filename ? { filename: part.filename } : {}) },
      };
    }
    case "input_audio":
      return { type: "input_audio", input_audio: part.input_audio };
    default:
      throw misfit([...path, "type"], `parts of type ${JSON.stringify(part.type)} are not taken`);
  }
}

function text(item: Item, field: string, path: Path): string {
  const value = item[field];
  if (typeof value !== "string" || (value === "" && field !== "arguments"))
    throw misfit([...path, field], "must be text");
  return value;
}
