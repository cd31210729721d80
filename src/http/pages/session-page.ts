import { DroverError } from "../../core/errors.ts";
import type { Message } from "../../core/message.ts";
import { sessionTranscript } from "../../core/session.ts";
import { toSession } from "../tenant-sessions.ts";
import type { HttpContext } from "../types.ts";
import { numberOf, type PageParts, respond } from "./respond.ts";
import { param } from "./run-page.ts";
import { renderSession } from "./session-view.ts";
import { answerText, toText } from "./text-page.ts";

const messagesPerPage = 50;

export async function sessionPage(parts: PageParts, context: HttpContext): Promise<Response> {
  const { store, now } = parts.deps;
  const id = param(context, "id");
  const page = await context.var.runs.list({ session: id, limit: 50 });
  if (page.runs.length === 0) throw unknown(id);
  const { messageCount: total } = await store.readSession(toSession(context.var.caller, id), 1);
  const first = numberOf(context, "from") ?? Math.max(0, total - messagesPerPage);
  const main = renderSession({
    id,
    runs: page.runs,
    cursor: page.cursor,
    messages: await readPart(parts, context, [first, Math.min(first + messagesPerPage, total)]),
    first,
    total,
    pageSize: messagesPerPage,
    now: now(),
  });
  return respond(parts, context, { title: `Session ${id}`, nav: "runs", main });
}

/** Of the transcript, which may be long: only what is shown is read. */
async function readPart({ deps }: PageParts, context: HttpContext, [from, to]: [number, number]): Promise<Message[]> {
  if (from >= to) return [];
  const session = toSession(context.var.caller, param(context, "id"));
  return deps.redactor.value(await deps.store.readMessages(sessionTranscript(session), from, to));
}

export async function sessionText(parts: PageParts, context: HttpContext): Promise<Response> {
  const id = param(context, "id");
  const { runs } = context.var;
  const page = await runs.list({ session: id, limit: 1 });
  if (page.runs.length === 0) throw unknown(id);
  const index = numberOf(context, "message");
  const [message] = index === undefined ? [] : await readPart(parts, context, [index, index + 1]);
  if (!message) throw new DroverError("not_found", `The transcript of session "${id}" has no such message.`);
  return answerText(toText(message.content) ?? "");
}

function unknown(id: string): DroverError {
  return new DroverError("not_found", `No run of a session "${id}" is known.`);
}
