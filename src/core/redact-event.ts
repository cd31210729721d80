import type { PlannedCall, RunEvent } from "./event.ts";
import type { Content, Message } from "./message.ts";
import type { Redactor } from "./redact.ts";
import type { RunError } from "./run.ts";

/** `stored`: whether content is redacted before it is kept; errors and reasons always are. */
export type Redaction = { redactor: Redactor; stored: boolean };

/**
 * An event as it may be committed. Errors and people's reasons are always redacted. With `stored`, content is too:
 * what models and tools say, and what people send. The arguments of a call stay as the model wrote them, since
 * the tool must be run with them.
 */
export function redactEvent(event: RunEvent, { redactor, stored }: Redaction): RunEvent {
  const told = redactTold(event, redactor);
  return stored ? redactContent(told, redactor) : told;
}

function redactTold(event: RunEvent, redactor: Redactor): RunEvent {
  switch (event.type) {
    case "model_failed":
    case "window_shrunk":
    case "verify_failed":
    case "tool_failed":
    case "tool_unknown":
    case "step_crashed":
    case "session_refused":
      return { ...event, error: redactError(event.error, redactor) };
    case "limit_reached":
      return { ...event, message: redactor.text(event.message) };
    case "child_finished":
      return event.fails ? { ...event, fails: redactError(event.fails, redactor) } : event;
    case "denied":
    case "cancel_requested":
    case "pause_requested":
      return { ...event, reason: redactor.text(event.reason) };
    default:
      return event;
  }
}

function redactError({ code, message }: RunError, redactor: Redactor): RunError {
  return { code, message: redactor.text(message) };
}

function redactContent(event: RunEvent, redactor: Redactor): RunEvent {
  switch (event.type) {
    case "model_answered": {
      const { next } = event;
      return {
        ...event,
        message: redactMessage(event.message, redactor) as typeof event.message,
        calls: event.calls.map((call) => redactCall(call, redactor)),
        ...(next?.type === "reask" ? { next: { ...next, feedback: redactor.text(next.feedback) } } : {}),
      };
    }
    case "summarised":
      return { ...event, text: redactor.text(event.text) };
    case "answer_refused":
      return { ...event, feedback: redactor.text(event.feedback) };
    case "tool_finished":
    case "child_finished":
      // One that was cut was redacted before: where its parts lie in the whole must stay true.
      return event.full ? event : { ...event, content: redactSaid(event.content, redactor) };
    case "answered":
      return { ...event, content: redactSaid(event.content, redactor) };
    case "input_received":
      return { ...event, messages: event.messages.map((message) => redactMessage(message, redactor)) };
    case "session_entered":
      return { ...event, inputAgain: event.inputAgain.map((message) => redactMessage(message, redactor)) };
    default:
      return event;
  }
}

function redactCall({ call, plan }: PlannedCall, redactor: Redactor): PlannedCall {
  if (plan.type === "settle") {
    const described = plan.described === undefined ? {} : { described: redactor.text(plan.described) };
    return { call, plan: { ...plan, content: redactor.text(plan.content), ...described } };
  }
  const { question } = plan;
  if (!question) return { call, plan };
  return { call, plan: { ...plan, question: { ...question, description: redactor.text(question.description) } } };
}

/** What a message or a result says. */
export function redactSaid(content: Content, redactor: Redactor): Content {
  return typeof content === "string" ? redactor.text(content) : redactor.value(content);
}

/** A message with its content redacted; its calls stay as they are. */
export function redactMessage(message: Message, redactor: Redactor): Message {
  const { content } = message;
  const clean = content === null ? message : { ...message, content: redactSaid(content, redactor) };
  if (clean.role !== "assistant") return clean;
  const { refusal, extra } = clean;
  return {
    ...clean,
    ...(refusal === undefined ? {} : { refusal: redactor.text(refusal) }),
    ...(extra === undefined ? {} : { extra: redactor.value(extra) }),
  };
}
