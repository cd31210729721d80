import { type Command, problemsOfCommand, problemsOfInput } from "../core/command.ts";
import { DroverError } from "../core/errors.ts";
import { type InputMessage, type Message, toInputMessages } from "../core/message.ts";

/**
 * Checks a command before any of it gets into a record.
 *
 * @throws DroverError "invalid", or "too_large" for input or an answer of more than `limitBytes` as JSON.
 */
export function checkCommand(command: Command, limitBytes: number): void {
  refuse(problemsOfCommand(command));
  if (command.type !== "input_received" && command.type !== "answered") return;
  const [what, given] = command.type === "answered" ? ["answer", command.content] : ["input", command.messages];
  const bytes = Buffer.byteLength(JSON.stringify(given));
  if (bytes > limitBytes) {
    throw new DroverError(
      "too_large",
      `The ${what} was not taken: it is ${bytes} bytes, the limit is ${limitBytes}. Put large content where a tool can read it, or raise DROVER_PAYLOAD_LIMIT.`,
    );
  }
}

/** Input for a run that goes on, as transcript messages. @throws DroverError "invalid" */
export function toInput(message: string | InputMessage): Message[] {
  const input = typeof message === "string" ? message : [message];
  refuse(problemsOfInput(input));
  return toInputMessages(input);
}

function refuse(problems: string[]): void {
  if (problems.length > 0) throw new DroverError("invalid", `The run was left as it is: ${problems.join("; ")}.`);
}
