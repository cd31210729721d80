import type { Content } from "../core/message.ts";
import { noUsage, type Usage } from "../core/run.ts";
import { pause } from "../engine/pause.ts";
import type { ModelFailure, ModelOutcome, ModelRequest, ModelSpec } from "../ports.ts";

/**
 * One turn of a script. A string is an answer.
 * - `text`, `toolCalls`: what the model says; call ids are left to Drover;
 * - `usage`: default ten input tokens for each message, an output token for each ten characters;
 * - `delayMs`: how long the answer takes; an abort ends the wait;
 * - `deltas`: the pieces in which `text` arrives; default: at once;
 * - `fail`: a list fails the attempts 1, 2, … in turn, after which the turn is answered; a single failure fails all.
 */
export type ScriptedStep = string | ScriptedTurn;
export type ScriptedTurn = {
  text?: Content | undefined;
  toolCalls?: { name: string; arguments?: Record<string, unknown> | undefined; id?: string | undefined }[] | undefined;
  usage?: Partial<Usage> | undefined;
  finishReason?: string | undefined;
  delayMs?: number | undefined;
  deltas?: string[] | undefined;
  fail?: ModelFailure | ModelFailure[] | undefined;
};
export type ScriptedReply = ScriptedStep | ((request: ModelRequest) => ScriptedStep | Promise<ScriptedStep>);

export type ScriptedModel = ModelSpec & {
  /** Numbers of the turns that this process was never asked for. Empty when the script was used up. */
  leftover(): number[];
  /** What this process was asked for, oldest first. The transcripts are not kept: a long test would be full of them. */
  readonly requests: readonly { runId: string; turn: number; attempt: number }[];
};

/**
 * A model that answers by turn: the n-th entry answers turn n of every run. The same turn is answered alike whenever and
 * wherever it is asked, so redelivered steps and several processes do not use the script up. A turn beyond the script
 * is a permanent failure. A summary that the run's window needs is answered with a fixed text, outside the script.
 */
export function scriptedModel(
  script: readonly ScriptedReply[],
  options: { model?: string; retry?: ModelSpec["retry"]; limits?: ModelSpec["limits"] } = {},
): ScriptedModel {
  const requests: { runId: string; turn: number; attempt: number }[] = [];
  return {
    model: options.model ?? "scripted",
    provider: "drover",
    retry: options.retry ?? { attempts: 4, delayMs: 100 },
    limits: options.limits,
    requests,
    leftover: () => {
      const asked = new Set(requests.map(({ turn }) => turn));
      return script.map((_, index) => index + 1).filter((turn) => !asked.has(turn));
    },
    client: {
      call: async (request) => {
        const { runId, turn, attempt } = request;
        if (request.task === "summary") return perform({ text: "Summary of what was said and done so far." }, request);
        requests.push({ runId, turn, attempt });
        const entry = script[turn - 1];
        if (entry === undefined) return surplus(turn, script.length);
        const step = typeof entry === "function" ? await entry(request) : entry;
        return perform(typeof step === "string" ? { text: step } : step, request);
      },
    },
  };
}

function surplus(turn: number, length: number): ModelOutcome {
  return failureOf({
    class: "permanent",
    code: "script_exhausted",
    message: `The scripted model was asked for turn ${turn}, but its script has ${length} turn(s).`,
  });
}

function failureOf(failure: ModelFailure): ModelOutcome {
  return { type: "failure", failure, usage: noUsage, dropped: [] };
}

const abortedFailure: ModelFailure = { class: "aborted", code: "aborted", message: "The model call was aborted." };

async function perform(step: ScriptedTurn, request: ModelRequest): Promise<ModelOutcome> {
  const failure = Array.isArray(step.fail) ? step.fail[request.attempt - 1] : step.fail;
  const finished = await speak(failure ? [] : deltasOf(step), step.delayMs ?? 0, request);
  if (!finished) return failureOf(abortedFailure);
  if (failure) return failureOf(failure);
  const toolCalls = (step.toolCalls ?? []).map((call) => ({
    id: call.id,
    name: call.name,
    arguments: JSON.stringify(call.arguments ?? {}),
  }));
  return {
    type: "reply",
    reply: { content: step.text ?? step.deltas?.join("") ?? null, toolCalls },
    finishReason: step.finishReason ?? (toolCalls.length > 0 ? "tool_calls" : "stop"),
    usage: { ...estimate(request, step), ...step.usage },
    model: "scripted",
    dropped: [],
  };
}

function deltasOf({ deltas, text }: ScriptedTurn): string[] {
  return deltas ?? (typeof text === "string" && text !== "" ? [text] : []);
}

/** Says the pieces, spread over the time. @returns false if the call was aborted before the last one. */
async function speak(deltas: string[], delayMs: number, { signal, onText }: ModelRequest): Promise<boolean> {
  const pauses = Math.max(deltas.length, 1);
  for (let index = 0; index < pauses; index += 1) {
    await pause(delayMs / pauses, signal);
    if (signal.aborted) return false;
    const delta = deltas[index];
    if (delta !== undefined) onText(delta);
  }
  return true;
}

/** Made up, but the same each time; it does not read the transcript, so that a long run costs a test no more per turn. */
function estimate({ messages }: ModelRequest, { text, deltas, toolCalls }: ScriptedTurn): Usage {
  const said = JSON.stringify([text ?? deltas, toolCalls]);
  return { inputTokens: 10 * messages.length, outputTokens: Math.ceil(said.length / 10), cachedTokens: 0 };
}
