import { DroverError } from "../../core/errors.ts";
import { type Content, textOf } from "../../core/message.ts";
import type { TurnView } from "../../core/report.ts";
import type { RunHandle } from "../../engine/run-handle.ts";
import type { HttpContext, HttpDeps } from "../types.ts";
import { param } from "./run-page.ts";

/** The whole of one text of a turn, as plain text. */
export async function turnText({ redactor }: HttpDeps, context: HttpContext): Promise<Response> {
  const run = context.var.runs.get(param(context, "id"));
  const what = context.req.query("what") ?? "";
  const [kind, name] = split(what);
  if (kind === "whole") return answerText(wholeResult(run, name, redactor.stream()));
  const turn = Number(param(context, "turn"));
  const requests = kind === "message" || kind === "instructions";
  const { turns } = await run.turns({ from: turn, limit: 1, requests });
  const view = turns.find((one) => one.turn === turn);
  const text = view && textIn(view, kind, name);
  if (text === undefined) throw new DroverError("not_found", `Turn ${turn} of run "${run.id}" has no text "${what}".`);
  return answerText(text);
}

function split(what: string): [string, string] {
  const dot = what.indexOf(".");
  return dot === -1 ? [what, ""] : [what.slice(0, dot), what.slice(dot + 1)];
}

function textIn({ answer, input, calls, request }: TurnView, kind: string, name: string): string | undefined {
  const call = calls.find(({ callId }) => callId === name);
  switch (kind) {
    case "answer":
      return answer && toText(answer.content);
    case "input":
      return toText(input[Number(name)]?.content);
    case "arguments":
      return call?.arguments;
    case "result":
      return toText(call?.result);
    case "message":
      return toText(request?.messages?.[Number(name)]?.content);
    case "instructions":
      return request?.instructions;
    default:
      return undefined;
  }
}

/** Text as it is; content of other parts as JSON. */
export function toText(content: Content | null | undefined): string | undefined {
  if (content === undefined) return undefined;
  const hasOthers = Array.isArray(content) && content.some(({ type }) => type !== "text");
  return hasOthers ? JSON.stringify(content, null, 2) : textOf(content);
}

type Filter = { push(text: string): string; end(): string };

/** A result as the tool gave it, in pieces: what the model got may have been cut. */
async function* wholeResult(run: RunHandle, callId: string, filter: Filter): AsyncGenerator<string> {
  for (let from = 0; ; ) {
    const { text, to, chars } = await run.readResult(callId, { from });
    from = to;
    yield filter.push(text);
    if (text === "" || to >= chars) break;
  }
  yield filter.end();
}

/** Never anything but text to a browser, whatever is in it. */
export async function answerText(text: string | AsyncGenerator<string>): Promise<Response> {
  const headers = {
    "content-type": "text/plain; charset=utf-8",
    "content-security-policy": "default-src 'none'; sandbox",
    "x-content-type-options": "nosniff",
  };
  if (typeof text === "string") return new Response(text, { headers });
  // What fails at once is told as an error.
  const first = await text.next();
  const encoder = new TextEncoder();
  let next: Promise<IteratorResult<string>> | undefined = Promise.resolve(first);
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const result = await (next ?? text.next());
      next = undefined;
      if (result.done) controller.close();
      else controller.enqueue(encoder.encode(result.value));
    },
    cancel: () => void text.return(undefined),
  });
  return new Response(body, { headers });
}
