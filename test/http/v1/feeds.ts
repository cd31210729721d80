import fc from "fast-check";
import type { RunFeedEvent } from "../../../src/core/feed.ts";
import type { AssistantMessage } from "../../../src/core/message.ts";
import type { StopReason } from "../../../src/core/run.ts";
import type { Subject } from "../../../src/http/v1/projection.ts";

/** What becomes of a turn's answer: it calls tools (the agent's, the caller's, both), is refused, or is the last word. */
type Turn = {
  lost: { pieces: string[]; fails: boolean }[];
  answer: string[];
  /** The execution that answers said something else before. */
  changed: boolean;
  what: "agent" | "caller" | "both" | "misfit" | "refused" | "refusal";
};
type History = { turns: Turn[]; last: Turn; stopReason: StopReason };

const pieces = fc.array(fc.constantFrom("Hello ", "there", ". ", "\n", "<think>hm", "</think>", "é", ""), {
  maxLength: 5,
});
const lost = fc.array(fc.record({ pieces, fails: fc.boolean() }), { maxLength: 2 });
const turn = (...kinds: Turn["what"][]) =>
  fc.record({ lost, answer: pieces, changed: fc.boolean(), what: fc.constantFrom(...kinds) });

/** Histories of runs; some wait for their caller before the end. */
export const histories: fc.Arbitrary<History> = fc.record({
  turns: fc.array(turn("agent", "misfit", "refused", "agent", "caller", "both"), { maxLength: 4 }),
  last: turn("agent", "agent", "agent", "refusal"),
  stopReason: fc.constantFrom("answered", "answered", "cancelled", "max_turns", "deadline", "poison"),
});

const tail = "0123456789012345678901234567890123456789";
export const subject: Subject = {
  id: `resp_${tail}`,
  tail,
  runId: `resp_${tail}`,
  createdAt: 1_000,
  echo: {
    background: true,
    instructions: null,
    metadata: {},
    model: "helper",
    previous_response_id: null,
    conversation: null,
    text: { format: { type: "text" } },
    tools: [],
    tool_choice: "auto",
  },
  afterSeq: 0,
  callerTools: new Set(["weather"]),
  wantsJson: false,
};

type Fields = Record<string, unknown> & { type: string };

/** The feed as a reader of the whole of it gets it. */
export function toFeed({ turns, last, stopReason }: History): RunFeedEvent[] {
  const events: RunFeedEvent[] = [];
  let seq = 0;
  const add = (fields: Fields): void => {
    events.push({ seq, at: 2_000 + seq, turn: 0, ...fields, id: String(events.length) } as unknown as RunFeedEvent);
  };
  const log = (fields: Fields): void => {
    seq += 1;
    add(fields);
  };
  const say = (number: number, execution: string, texts: readonly string[]): void => {
    for (const text of texts) if (text !== "") add({ type: "text", turn: number, attempt: 1, execution, text });
  };
  log({ type: "run_created", messages: [0, 1] });
  log({ type: "run_began", agentHash: "h" });
  const all = stopReason === "answered" ? [...turns, last] : turns;
  for (const [index, given] of all.entries()) {
    const number = index + 1;
    for (const [place, { pieces: texts, fails }] of given.lost.entries()) {
      const execution = `${number}a${place}`;
      say(number, execution, texts);
      if (fails) log({ type: "model_failed", attempt: 1, execution, error: { code: "x", message: "x" }, nextAt: 1 });
      if (texts.join("") !== "") add({ type: "text_superseded", turn: number, attempt: 1, execution });
    }
    if (given.changed) {
      say(number, `${number}b`, ["Not this. "]);
      add({ type: "text_superseded", turn: number, attempt: 1, execution: `${number}b` });
    }
    answerTurn({ say, log }, number, given, given === last);
  }
  const status = stopReason === "answered" ? "completed" : stopReason === "cancelled" ? "cancelled" : "failed";
  log({ type: "run_ended", status, stopReason });
  return events;
}

type Making = {
  say: (turn: number, execution: string, texts: readonly string[]) => void;
  log: (fields: Fields) => void;
};

function answerTurn({ say, log }: Making, number: number, { answer, what }: Turn, isLast: boolean): void {
  const execution = `${number}b`;
  const isRefusal = what === "refusal";
  if (!isRefusal) say(number, execution, answer);
  const tools =
    isLast || what === "refused"
      ? []
      : {
          agent: ["look"],
          caller: ["weather", "weather"],
          both: ["weather", "look"],
          misfit: ["weather"],
          refusal: [],
        }[what];
  const toolCalls = tools.map((name, place) => ({
    callId: `call-${number}-${place + 1}`,
    id: "p",
    name,
    arguments: "{}",
  }));
  const message: AssistantMessage = {
    role: "assistant",
    content: isRefusal ? null : answer.join(""),
    ...(isRefusal ? { refusal: "No." } : {}),
    ...(toolCalls.length > 0 ? { toolCalls } : {}),
  };
  const usage = { inputTokens: 2, outputTokens: 1, cachedTokens: 0 };
  const calls = toolCalls.map(({ callId }) => callId);
  log({ type: "model_answered", turn: number, attempt: 1, execution, message: number, calls, usage, answer: message });
  for (const { callId, name } of toolCalls) {
    if (name === "weather" && what !== "misfit") log({ type: "answer_asked", callId, tool: name, from: "caller" });
  }
  for (const { callId, name } of toolCalls) {
    if (name === "look" || what === "misfit")
      log({ type: "tool_finished", callId, tool: name, attempt: 1, outcome: "ok", message: 0 });
  }
  if (tools.length > 0) log({ type: "messages_appended", messages: [number, number + 1] });
  if (!isLast && what === "refused") log({ type: "answer_refused", why: "output", message: 0 });
}
