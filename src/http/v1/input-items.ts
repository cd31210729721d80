import type { HttpContext } from "../types.ts";
import { badField } from "./errors.ts";
import { type Kept, tailOf } from "./record.ts";

const defaultLimit = 20;
const mostItems = 100;

/** A page of what a response was given, newest first unless asked otherwise. */
export function listItems(context: HttpContext, { record, request }: Kept): Record<string, unknown> {
  const order = context.req.query("order") ?? "desc";
  if (order !== "asc" && order !== "desc") throw badField("order", 'order must be "asc" or "desc".');
  const limit = Number(context.req.query("limit") ?? defaultLimit);
  if (!Number.isInteger(limit) || limit < 1 || limit > mostItems) {
    throw badField("limit", `limit must be a whole number from 1 to ${mostItems}.`);
  }
  const named = request.items.map((item, index) => ({ ...item, id: toItemId(item, `${tailOf(record.id)}_${index}`) }));
  const items = order === "asc" ? named : named.toReversed();
  const after = context.req.query("after");
  const at = after === undefined ? -1 : items.findIndex(({ id }) => id === after);
  if (after !== undefined && at === -1) throw badField("after", `after: this response was given no item '${after}'.`);
  const data = items.slice(at + 1, at + 1 + limit);
  const ids = { first_id: data.at(0)?.id ?? null, last_id: data.at(-1)?.id ?? null };
  return { object: "list", data, ...ids, has_more: at + 1 + limit < items.length };
}

const prefixes: Record<string, string> = { message: "msg", function_call: "fc", function_call_output: "fco" };

function toItemId({ id, type }: Record<string, unknown>, rest: string): string {
  return typeof id === "string" && id !== "" ? id : `${prefixes[String(type)] ?? "item"}_in_${rest}`;
}
