import type { HttpContext } from "../types.ts";
import { badField } from "./errors.ts";
import { type Kept, tailOf } from "./record.ts";

const defaultLimit = 20;
const mostItems = 100;

/** A page of what a response was given, newest first unless asked otherwise. */
export function listItems(context: HttpContext, { record, request }: Kept): Record<string, unknown> {
  const { isAscending, limit, after } = readPaging(context);
  const named = nameItems(request.items, tailOf(record.id));
  const items = isAscending ? named : named.toReversed();
  const from = after === undefined ? 0 : items.findIndex(({ id }) => id === after) + 1;
  if (after !== undefined && from === 0) throw badField("after", `after: this response was given no item '${after}'.`);
  const data = items.slice(from, from + limit);
  const [first, last] = [data.at(0)?.id ?? null, data.at(-1)?.id ?? null];
  return { object: "list", data, first_id: first, last_id: last, has_more: from + limit < items.length };
}

function readPaging(context: HttpContext): { isAscending: boolean; limit: number; after: string | undefined } {
  const { order = "desc", limit: given = defaultLimit, after } = context.req.query();
  if (order !== "asc" && order !== "desc") throw badField("order", 'order must be "asc" or "desc".');
  const limit = Number(given);
  if (!Number.isInteger(limit) || limit < 1 || limit > mostItems) {
    throw badField("limit", `limit must be a whole number from 1 to ${mostItems}.`);
  }
  return { isAscending: order === "asc", limit, after };
}

const prefixes: Record<string, string> = { message: "msg", function_call: "fc", function_call_output: "fco" };

/** Who sends a history may name two items alike: the second gets a name of its own, else a list would never end. */
function nameItems(
  items: readonly Record<string, unknown>[],
  tail: string,
): (Record<string, unknown> & { id: string })[] {
  const taken = new Set<string>();
  return items.map((item, index) => {
    const { id: given, type } = item;
    const isFree = typeof given === "string" && given !== "" && !taken.has(given);
    const id = isFree ? given : `${prefixes[String(type)] ?? "item"}_in_${tail}_${index}`;
    taken.add(id);
    return { ...item, id };
  });
}
