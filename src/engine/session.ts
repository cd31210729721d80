// How runs of one session come to their turns: see src/core/session.ts for what holds.
import { DroverError } from "../core/errors.ts";
import type { RunEvent } from "../core/event.ts";
import type { Message, ToolCall } from "../core/message.ts";
import type { Run } from "../core/run.ts";
import { type LineEntry, lineEntryOf, sessionTranscript, transcriptOf, waitsForSession } from "../core/session.ts";
import type { Summary } from "../core/window.ts";
import type { LostTurn, StepOutcome } from "../ports.ts";
import type { AdvanceOptions, AdvanceResult } from "./advance.ts";
import type { EngineDeps } from "./deps.ts";
import { queueOwed } from "./queue-owed.ts";
import { quietly } from "./quietly.ts";
import { afterReport, type RunStepDeps, type StepContext } from "./step.ts";

type Deps = Pick<EngineDeps, "store" | "queue" | "advance" | "logger">;

/** Joins the line when its time has come, or looks who is at its head: after joining, and after leaving. */
export async function performSession(deps: RunStepDeps, run: Run, context: StepContext): Promise<StepOutcome> {
  const { runId, place } = run;
  if (place?.state === "delayed") {
    const event = { type: "session_joined" as const, round: place.round };
    return afterReport(deps, await deps.advance(runId, event, { head: run, pipeline: true }), context);
  }
  return afterReport(deps, await lookAtLine(deps, run, {}), context);
}

/**
 * Tells the run at the head of the line that its turn has come, whoever it is; then notes what that means for `run`: it
 * waits behind another, or it has handed over. Done twice it changes nothing.
 *
 * @returns what became of `run`.
 */
export async function lookAtLine(deps: Deps, run: Run, options: AdvanceOptions): Promise<AdvanceResult> {
  const { store, advance } = deps;
  const { runId, place, session } = run;
  if (!place || session === undefined) return { run, change: null };
  const { head, told } = (await tellFirst(deps, session, { seen: run, options })) ?? {};
  if (told && head?.runId === runId) return told;
  const own = { ...options, head: run };
  if (place.state === "leaving") return advance(runId, { type: "session_passed", round: place.round }, own);
  // Not in line although it should be: it has ended since it was read.
  if (!head) return { run: await store.load(runId), change: null };
  return advance(runId, { type: "session_queued", round: place.round, behind: head.runId }, own);
}

type Telling = { messageCount: number; seen?: Run | undefined; options: AdvanceOptions };
type Told = { head: LineEntry; told: AdvanceResult };

/**
 * Tells the run at the head of the line. One whose record is lost, and perhaps its id taken by another, would stay there
 * for ever: it is taken out, and the line looked at again. Undefined: nobody is in line.
 */
async function tellFirst(
  deps: Deps,
  session: string,
  { seen: given, options }: Omit<Telling, "messageCount">,
): Promise<Told | undefined> {
  for (let seen = given; ; seen = undefined) {
    const { line, messageCount } = await deps.store.readSession(session, 1);
    const [head] = line;
    if (!head) return undefined;
    const told = await tell(deps, head, { seen, options, messageCount });
    if (isInLine(told.run, session, head)) return { head, told };
    await dropLostTurn(deps, session, head, { seen: told.run, messageCount });
  }
}

function isInLine(run: Run | null, session: string, { round }: LineEntry): boolean {
  return run?.session === session && lineEntryOf(run)?.round === round;
}

/** The calls that the run left open get an answer: servers refuse a transcript with some that have none. */
async function dropLostTurn(
  { store, logger }: Deps,
  session: string,
  entry: LineEntry,
  { seen, messageCount }: Omit<LostTurn, "messages">,
): Promise<void> {
  const [last] = await store.readMessages(sessionTranscript(session), messageCount - 1, messageCount);
  const early = await store.readResults(entry.runId);
  const messages = callsOf(last).map(
    ({ callId, id, name }): Message =>
      early[callId] ?? {
        role: "tool",
        callId,
        toolCallId: id,
        name,
        content: `Outcome unknown: the record of the run that called "${name}" was lost.`,
        outcome: "unknown",
      },
  );
  if (await store.dropFromLine(session, entry, { seen, messageCount, messages })) {
    logger.warn(
      { runId: entry.runId, session },
      "a run in a session's line is not there any more: the next one goes on",
    );
  }
}

function callsOf(message: Message | undefined): ToolCall[] {
  return message?.role === "assistant" ? (message.toolCalls ?? []) : [];
}

/** Takes a removed run out of its session's line, and tells whoever is first then: done for a run that cannot do it itself. */
export async function leaveLine(deps: Deps, session: string, runId: string): Promise<void> {
  await tellFirst(deps, session, { options: { sweepable: true } });
  const { line, messageCount } = await deps.store.readSession(session, mostInLine);
  for (const entry of line.slice(1)) {
    if (entry.runId === runId) await dropLostTurn(deps, session, entry, { seen: null, messageCount });
  }
}

const mostInLine = 1_000;

/**
 * Looks at the line of every session in which a run waits: of a run whose record is lost nobody knows which it was in, and
 * those behind it owe nothing themselves.
 */
export async function wakeSessions(deps: Deps): Promise<void> {
  const seen = new Set<string>();
  // A retried run may wait too.
  for (const status of ["queued", "running"] as const) {
    let cursor: string | undefined;
    do {
      const page = await deps.store.list({ status, limit: runsAsked, cursor });
      for (const { session, place } of page.runs) {
        if (session === undefined || place?.state !== "queued" || seen.has(session)) continue;
        seen.add(session);
        const what = "the line of a session could not be looked at";
        await quietly(deps.logger, { session }, what, () => tellFirst(deps, session, { options: { sweepable: true } }));
      }
      cursor = page.cursor;
    } while (cursor !== undefined);
  }
}

/** Nobody appends to the transcript until the head of the line was told, so its length is that of the same look. */
async function tell(
  deps: Deps,
  { runId, round }: LineEntry,
  { messageCount, seen, options }: Telling,
): Promise<AdvanceResult> {
  const { store } = deps;
  const head = seen?.runId === runId ? seen : await store.load(runId);
  let result: AdvanceResult = { run: head, change: null };
  if (head?.place?.round === round && waitsForSession(head)) {
    const inputAgain = await readInputAgain(store, head, messageCount);
    result = await enter(deps, head, { type: "session_entered", round, messageCount, inputAgain }, options);
  }
  // It was told before: whoever did may have ended before queueing its step.
  if (!result.change && result.run && !options.sweepable) await queueOwed(deps, result.run);
  return result;
}

type Entered = Extract<RunEvent, { type: "session_entered" }>;

/**
 * Inputs that came one by one enter the transcript at once. If that is larger than Redis takes, the run ends with the reason:
 * all behind it would wait for ever.
 */
async function enter({ advance }: Deps, head: Run, entered: Entered, options: AdvanceOptions): Promise<AdvanceResult> {
  const own = { ...options, head };
  try {
    return await advance(head.runId, entered, own);
  } catch (thrown) {
    if (!(thrown instanceof DroverError && thrown.code === "too_large")) throw thrown;
    const message = `All that the run was sent cannot enter its session's transcript at once. ${thrown.message}`;
    const error = { code: "too_large", message };
    return advance(head.runId, { type: "session_refused", round: entered.round, error }, own);
  }
}

/** The input of a run that is retried after others have spoken; nobody else needs it said again. */
async function readInputAgain(store: Deps["store"], run: Run, messageCount: number): Promise<Message[]> {
  const { baseMessage = 0, inputCount = 0 } = run;
  if (inputCount === 0 || run.messageCount === messageCount) return [];
  return store.readMessages(transcriptOf(run), baseMessage, baseMessage + inputCount);
}

const runsAsked = 100;
const mostPages = 20;

/**
 * The summary of most of what was said before a run came to its turn, made by a run of its session before it: so that
 * each condenses only what is new. Undefined if there is none, or the run has one of its own.
 */
export async function summaryBefore(store: Deps["store"], run: Run): Promise<Summary | undefined> {
  const { session, baseMessage, summary: own } = run;
  if (session === undefined || baseMessage === undefined || own) return undefined;
  let cursor: string | undefined;
  // The newest may all still wait for their turn.
  for (let pages = 0; pages < mostPages; pages += 1) {
    const page = await store.list({ session, limit: runsAsked, cursor });
    const summaries = page.runs.map(({ summary }) => summary).filter((summary) => summary !== undefined);
    const usable = summaries.filter(({ upTo }) => upTo <= baseMessage);
    const [most] = usable.toSorted((a, b) => b.upTo - a.upTo);
    if (most || page.cursor === undefined) return most;
    cursor = page.cursor;
  }
  return undefined;
}
