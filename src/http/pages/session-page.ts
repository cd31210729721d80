import { DroverError } from "../../core/errors.ts";
import type { HttpContext } from "../types.ts";
import { numberOf, type PageParts, respond } from "./respond.ts";
import { param } from "./run-page.ts";
import { renderSession } from "./session-view.ts";
import { answerText, toText } from "./text-page.ts";

const messagesPerPage = 50;

export async function sessionPage(parts: PageParts, context: HttpContext): Promise<Response> {
  const { redactor, now } = parts.deps;
  const id = param(context, "id");
  const { runs } = context.var;
  const [page, transcript] = await Promise.all([runs.list({ session: id, limit: 50 }), runs.session(id).transcript()]);
  if (page.runs.length === 0) throw unknown(id);
  const first = numberOf(context, "from") ?? Math.max(0, transcript.length - messagesPerPage);
  const main = renderSession({
    id,
    runs: page.runs,
    cursor: page.cursor,
    messages: redactor.value(transcript.slice(first, first + messagesPerPage)),
    first,
    total: transcript.length,
    pageSize: messagesPerPage,
    now: now(),
  });
  return respond(parts, context, { title: `Session ${id}`, nav: "runs", main });
}

export async function sessionText({ deps }: PageParts, context: HttpContext): Promise<Response> {
  const id = param(context, "id");
  const { runs } = context.var;
  const page = await runs.list({ session: id, limit: 1 });
  if (page.runs.length === 0) throw unknown(id);
  const message = (await runs.session(id).transcript())[numberOf(context, "message") ?? -1];
  if (!message) throw new DroverError("not_found", `The transcript of session "${id}" has no such message.`);
  return answerText(toText(deps.redactor.value(message.content)) ?? "");
}

function unknown(id: string): DroverError {
  return new DroverError("not_found", `No run of a session "${id}" is known.`);
}
