import { z } from "zod";
import type { CallDelta } from "./call-slots.ts";

/** A record of whatever a server put there. */
export type Fields = Record<string, unknown>;

export function isRecord(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const optionalText = z.string().optional().catch(undefined);
/** Some servers number calls with text. */
const indexSchema = z.union([
  z.int(),
  z
    .string()
    .regex(/^\d{1,9}$/)
    .transform(Number),
]);
const callSchema = z.looseObject({
  index: indexSchema.optional().catch(undefined),
  id: optionalText,
  function: z.record(z.string(), z.unknown()).optional().catch(undefined),
});

/** Where a call stands without a `function` around its name and arguments, these are its own fields. */
const flatFields = ["name", "arguments", "parameters", "input"];

/**
 * A piece of a call, tidied; undefined if it is none.
 *
 * @param position the call's place in a list that numbers its calls by place.
 */
export function readCallDelta(raw: unknown, position: number | undefined): CallDelta | undefined {
  const parsed = callSchema.safeParse(raw);
  if (!parsed.success) return undefined;
  const { index, id, type: _type, function: wrapped, ...rest } = parsed.data;
  const fn: Fields = wrapped ?? pick(rest, (field) => flatFields.includes(field));
  const extra = wrapped ? rest : pick(rest, (field) => !flatFields.includes(field));
  const { name, arguments: args, parameters, input, ...functionExtra } = fn;
  return {
    index: position ?? index,
    id: id || undefined,
    name: typeof name === "string" && name !== "" ? name : undefined,
    arguments: toArguments(args ?? parameters ?? input),
    extra: Object.keys(functionExtra).length > 0 ? { ...extra, function: functionExtra } : extra,
  };
}

function pick(fields: Fields, wanted: (field: string) => boolean): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([field]) => wanted(field)));
}

function toArguments(value: unknown): string {
  if (typeof value === "string") return value;
  return value === undefined || value === null ? "" : JSON.stringify(value);
}

/** Joins pieces of a field that we do not know: text and lists grow, records are filled, nulls change nothing. */
export function merge(before: unknown, piece: unknown): unknown {
  if (piece === null || piece === undefined) return before ?? piece;
  if (typeof before === "string" && typeof piece === "string") return before + piece;
  if (Array.isArray(before) && Array.isArray(piece)) return piece.reduce(addItem, before as unknown[]);
  if (isRecord(before) && isRecord(piece)) return { ...before, ...piece };
  return piece;
}

const growing = new Set(["text", "summary", "data", "thinking"]);

/** Adds an item to a list; a piece of the last one, numbered and typed like it, is joined with it. */
function addItem(items: unknown[], item: unknown): unknown[] {
  const last = items.at(-1);
  const isPiece =
    isRecord(last) &&
    isRecord(item) &&
    typeof item.index === "number" &&
    last.index === item.index &&
    last.type === item.type;
  if (!isPiece) return [...items, item];
  const joined = Object.entries(item).map(([field, value]): [string, unknown] => {
    const before = last[field];
    if (growing.has(field) && typeof before === "string" && typeof value === "string") return [field, before + value];
    return [field, value ?? before];
  });
  return [...items.slice(0, -1), { ...last, ...Object.fromEntries(joined) }];
}

/** An error in place of an answer, in whichever form; undefined if there is none. */
export function errorOf(chunk: Fields): unknown {
  if (chunk.error) return chunk.error;
  if (chunk.object === "error" || chunk.type === "error") return chunk;
  if (Array.isArray(chunk.choices)) return undefined;
  return chunk.detail || statusOf(isRecord(chunk.base_resp) ? chunk.base_resp : chunk, chunk.success === false);
}

const first = (fields: Fields, names: readonly string[]): unknown => names.map((name) => fields[name]).find(Boolean);

/** A status and what it means, side by side; a status of zero is none. */
function statusOf(fields: Fields, isFailure: boolean): unknown {
  const message = first(fields, ["status_msg", "message", "msg"]);
  const code = first(fields, ["status_code", "code", "status"]);
  return typeof message === "string" && (code !== undefined || isFailure) ? { code, message } : undefined;
}
