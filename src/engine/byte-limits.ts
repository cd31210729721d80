import { type Limits, tightenLimits } from "../core/agent.ts";
import { messageBytes } from "../core/bytes.ts";
import type { Command } from "../core/command.ts";
import { DroverError } from "../core/errors.ts";
import { effectiveLimits, problemOfSize } from "../core/limits.ts";
import { type Content, type Message, type ToolCall, toInputMessages } from "../core/message.ts";
import type { StartPayload } from "../core/new-run.ts";
import { isEnded, type Run } from "../core/run.ts";
import type { AgentRegistry, RunStore } from "../ports.ts";

// What is too large is refused where it comes in, by the limits that are known there: a producer that has not the agent's
// code knows the run's own, and the agent's hold before its next model call.

type Sizes = Pick<Limits, "maxBytes" | "maxMessageBytes">;

/** @throws DroverError "too_large" naming field, size and limit */
export function refuseOversizeStart(agents: AgentRegistry, { agent, input, limits = {} }: StartPayload): void {
  const known = agents.get(agent);
  const inForce: Sizes = known ? tightenLimits(known.limits, limits) : limits;
  const problem = problemOfSize(toInputMessages(input), inForce, { field: "input" });
  if (problem) throw new DroverError("too_large", `The run was not started: ${problem}.`);
}

type Sized = Extract<Command, { type: "input_received" | "answered" }>;

function isSized(command: Command): command is Sized {
  return command.type === "input_received" || command.type === "answered";
}

/**
 * A command that fits the run as it is. It says what the run may hold, for others may give it more before this is committed.
 *
 * @throws DroverError "too_large" naming field, size and limit
 */
export async function withinLimits(
  { store, agents }: { store: Pick<RunStore, "load">; agents: AgentRegistry },
  runId: string,
  command: Command,
): Promise<Command> {
  if (!isSized(command)) return command;
  const run = await store.load(runId);
  if (!run) return command;
  refuseOversizeCommand(agents, run, command);
  const { maxBytes } = limitsOf(agents, run);
  return maxBytes === undefined ? command : { ...command, maxBytes };
}

/** @throws DroverError "too_large" naming field, size and limit */
export function refuseOversizeCommand(agents: AgentRegistry, run: Run, command: Command): void {
  if (!isSized(command) || wasTaken(run, command)) return;
  const [field, messages] =
    command.type === "answered" ? ["answer", [asMessage(command.content)]] : ["input", command.messages];
  const problem = problemOfSize(messages as Message[], limitsOf(agents, run), {
    held: run.bytes,
    field: String(field),
  });
  if (problem) throw new DroverError("too_large", `The run was left as it is: ${problem}.`);
}

/** What is sent again was taken already, and who has ended takes nothing: both are told so. */
function wasTaken(run: Run, command: Sized): boolean {
  if (isEnded(run)) return true;
  if (command.type === "input_received") return run.inputIds.includes(command.inputId);
  return !run.calls.some(({ callId, state }) => callId === command.callId && state === "answer");
}

function asMessage(content: Content): Message {
  return { role: "user", content };
}

function limitsOf(agents: AgentRegistry, run: Run): Sizes {
  const agent = agents.get(run.agent);
  return agent ? effectiveLimits(agent.limits, run) : { ...run.limits, ...run.retryLimits };
}

/** Why an answer is not kept, in words; undefined if it is. The run can be gone on with: nothing of it was lost. */
export function problemOfAnswer(
  content: Content | null,
  toolCalls: readonly ToolCall[],
  { maxMessageBytes }: { maxMessageBytes: number },
): string | undefined {
  const bytes = messageBytes({ role: "assistant", content, toolCalls: [...toolCalls] } as Message);
  if (bytes <= maxMessageBytes) return undefined;
  return (
    `The model's answer is ${bytes} bytes, the limit of a message (maxMessageBytes) is ${maxMessageBytes}. ` +
    "Have the agent answer in parts or write to a tool, or retry the run with a higher maxMessageBytes."
  );
}
