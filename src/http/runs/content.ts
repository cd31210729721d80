import { z } from "zod";
import { DroverError, unknownRun } from "../../core/errors.ts";
import { type Message, textOf } from "../../core/message.ts";
import type { Redactor } from "../../core/redact.ts";
import { redactShown } from "../../core/report-turn.ts";
import { ownParts, sessionTranscript, transcriptOf } from "../../core/session.ts";
import type { RunHandle } from "../../engine/run-handle.ts";
import { toSession } from "../tenant-sessions.ts";
import type { HttpContext, HttpDeps } from "../types.ts";
import { type Api, addEndpoint } from "./endpoint.ts";
import { callParams, numberParam, type PageQuery, pageParams, runIdParams, sessionParams } from "./parameters.ts";
import { pieceSchema, sessionSchema, transcriptSchema } from "./schemas.ts";

const usualLimit = 200;
const transcriptQuery = pageParams("message", 1_000, usualLimit);

/** What was said: transcripts, sessions, results. */
export function addContent(api: Api, deps: HttpDeps): void {
  addTranscript(api, deps);
  addSession(api, deps);
  addCallResult(api, deps);
}

function addTranscript(api: Api, deps: HttpDeps): void {
  addEndpoint(
    api,
    {
      method: "get",
      path: "/runs/{runId}/transcript",
      tag: "Runs",
      summary: "What was said and done",
      description: "Append-only; in a session the run's own part. Secrets are redacted.",
      scope: "read",
      params: runIdParams,
      query: transcriptQuery,
      answers: { 200: { description: "A page of messages, the oldest first", schema: transcriptSchema } },
      problems: [404],
    },
    async (context, { params, query }) => {
      // Says "not found" for a run that is not the caller's to see.
      await context.var.runs.get(params.runId).status();
      const run = await deps.store.load(params.runId);
      if (!run) throw unknownRun(params.runId);
      return answerPage(context, deps, { transcript: transcriptOf(run), parts: ownParts(run), query });
    },
  );
}

function addSession(api: Api, deps: HttpDeps): void {
  addEndpoint(
    api,
    {
      method: "get",
      path: "/sessions/{session}",
      tag: "Sessions",
      summary: "A session's runs that have not ended",
      description: "`GET /runs?session=` lists all of its runs.",
      scope: "read",
      params: sessionParams,
      answers: { 200: { description: "The active run, and those that wait", schema: sessionSchema } },
      problems: [404],
    },
    async (context, { params: { session } }) => {
      await checkSession(context, session);
      return context.json({ session, ...(await context.var.runs.session(session).runs()) });
    },
  );
  addEndpoint(
    api,
    {
      method: "get",
      path: "/sessions/{session}/transcript",
      tag: "Sessions",
      summary: "What was said and done by all runs of a session",
      scope: "read",
      params: sessionParams,
      query: transcriptQuery,
      answers: { 200: { description: "A page of messages, the oldest first", schema: transcriptSchema } },
      problems: [404],
    },
    async (context, { params, query }) => {
      await checkSession(context, params.session);
      const session = toSession(context.var.caller, params.session);
      const { messageCount } = await deps.store.readSession(session, 1);
      return answerPage(context, deps, { transcript: sessionTranscript(session), parts: [[0, messageCount]], query });
    },
  );
}

/** @throws DroverError "not_found" for a session without a run that the caller may see. */
async function checkSession(context: HttpContext, session: string): Promise<void> {
  const { runs } = await context.var.runs.list({ session, limit: 1 });
  if (runs.length === 0) throw new DroverError("not_found", `No run belongs to a session "${session}".`);
}

/** A page ends early once it has so much text: each message may be a megabyte. */
const mostChars = 4_000_000;
const atOnce = 20;

type Page = { transcript: string; parts: [number, number][]; query: PageQuery };

/** Some messages of the parts of a transcript, numbered from the first of them. */
async function answerPage(
  context: HttpContext,
  { store, redactor }: HttpDeps,
  { transcript, parts, query }: Page,
): Promise<Response> {
  const { from = 0, limit = usualLimit } = query;
  const messages: Message[] = [];
  let total = 0;
  let chars = 0;
  for (const [begin, end] of parts) {
    const last = Math.min(end, begin + from + limit - total);
    for (let at = begin + Math.max(0, from - total); at < last && chars < mostChars; at += atOnce) {
      const read = await store.readMessages(transcript, at, Math.min(last, at + atOnce));
      messages.push(...read);
      chars += read.reduce((sum, { content }) => sum + textOf(content).length, 0);
    }
    total += end - begin;
  }
  const next = from + messages.length;
  return context.json({
    from,
    total,
    ...(next < total && messages.length > 0 ? { next } : {}),
    messages: messages.map((message) => redactShown(message, redactor)),
  });
}

const usualLength = 65_536;
const mostLength = 1_000_000;

function addCallResult(api: Api, { redactor }: HttpDeps): void {
  addEndpoint(
    api,
    {
      method: "get",
      path: "/runs/{runId}/calls/{callId}/result",
      tag: "Calls",
      summary: "A piece of a call's whole result",
      description:
        "Also of a result that was cut for the model. Positions are UTF-16 code units of the text as it is kept.",
      scope: "read",
      params: callParams,
      query: z.strictObject({
        from: numberParam(0, Number.MAX_SAFE_INTEGER, "The first character, from 0. Default 0"),
        length: numberParam(1, mostLength, `At most so many. Default ${usualLength}`),
      }),
      answers: { 200: { description: "The piece, and how long the whole is", schema: pieceSchema } },
      problems: [404],
    },
    async (context, { params, query: { from = 0, length = usualLength } }) => {
      const run = context.var.runs.get(params.runId);
      return context.json(await readPiece(run, redactor, { callId: params.callId, from, length }));
    },
  );
}

/** A secret may begin before a piece and end after it: so much around it is looked at too. */
const around = 4_000;

type Piece = { from: number; to: number; chars: number; text: string };

async function readPiece(
  run: RunHandle,
  redactor: Redactor,
  { callId, from, length }: { callId: string; from: number; length: number },
): Promise<Piece> {
  const before = Math.min(from, around);
  const read = await run.readResult(callId, { from: from - before, length: before + length + around });
  const { chars } = read;
  const to = Math.min(from + length, chars);
  const [head, tail] = [read.text.slice(0, before), read.text.slice(before + length)];
  const clean = redactor.text(read.text);
  const text = clean.slice(
    clean.startsWith(head) ? head.length : 0,
    tail !== "" && clean.endsWith(tail) ? -tail.length : undefined,
  );
  return { from: Math.min(from, chars), to, chars, text };
}
