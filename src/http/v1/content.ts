import type { ContentPart } from "../../core/message.ts";
import { badField, type V1Error } from "./errors.ts";
import { toParam } from "./request.ts";

/** Where in a request's body a value is. */
export type Path = readonly PropertyKey[];

/** Text, or a list of parts as `readPart` reads them; a single part of text is its text. @throws V1Error */
export function readContent(
  content: unknown,
  path: Path,
  readPart: (part: unknown, path: Path) => ContentPart,
): string | ContentPart[] {
  if (typeof content === "string") return content;
  if (!Array.isArray(content) || content.length === 0) throw misfit(path, "must be text or a list of parts");
  const parts = content.map((part: unknown, index) => readPart(part, [...path, index]));
  const [only] = parts;
  return parts.length === 1 && only?.type === "text" ? String(only.text) : parts;
}

export function misfit(path: Path, problem: string): V1Error {
  const param = toParam(path);
  return badField(param, `${param}: ${problem}.`);
}
