import { setTimeout as sleep } from "node:timers/promises";
import { PermanentError, RetryableError } from "../core/errors.ts";
import { rulingOn } from "../core/policy.ts";
import type { Agent } from "../define-agent.ts";
import { hashText } from "../engine/hash.ts";
import type { AgentCode, ModelClient } from "../ports.ts";
import type { Tool, ToolContext } from "../tools/define-tool.ts";
import { createToolCaller } from "../tools/tool-caller.ts";
import type { Execution } from "./execution.ts";
import type { ModelCall } from "./ledger.ts";
import { randomFor, stableName } from "./random.ts";
import { modelOf, type Scripts } from "./script.ts";
import { knownSeq } from "./witness.ts";

export type ChaosAgentOptions = {
  scripts: Scripts;
  seed: number;
  /** Whether the code of a tool is executed; otherwise a stub stands in for it. */
  isReal: (tool: Tool) => boolean;
  /** Told of every execution, at the moment it happens. */
  note: (execution: Execution) => void;
  /** How long a stub takes at most, in ms; default 0. */
  stubMs?: number | undefined;
  /** The agents there are: a tool that hands work to another is one that is stubbed. */
  knows: (agent: string) => boolean;
  /** Told of every model call before it is made. */
  onModelCall?: ((call: Omit<ModelCall, "pid" | "at">) => void) | undefined;
  /** Whether a model's text comes in one piece, when it is done: when a piece is published is a matter of real time. */
  inOnePiece?: boolean | undefined;
};

/** Of a stub: a call whose worker is lost is given up after this time. */
const stubTimeoutMs = 2_000;

/** Which tools run for real unless told otherwise: those that change nothing. */
export function isHarmless(tool: Tool): boolean {
  return tool.effect === "read";
}

/** Whether the calls of a tool are runs of an agent that is there. */
export function isDoneByAgent({ child }: Tool, { knows }: Pick<ChaosAgentOptions, "knows">): boolean {
  return child !== undefined && knows(child.agent);
}

/**
 * The same agent with a scripted model and tools that are watched. Limits of its models fall away, since none is asked;
 * those of stubbed tools' rates too.
 */
export function chaosAgent(agent: Agent, options: ChaosAgentOptions): Agent {
  const tools = agent.tools.map((tool) => watched(tool, options));
  const scripted = watchedModel(modelOf(options.scripts), options);
  const model = options.inOnePiece ? inOnePiece(scripted) : scripted;
  const toCode = (code: AgentCode, ruleOn: Parameters<typeof createToolCaller>[1]): AgentCode => ({
    ...code,
    model,
    modelGate: () => ({ key: `model:chaos/${code.definition.model}`, model: code.definition.model }),
    modelRetry: { attempts: 5, delayMs: 50 },
    secrets: undefined,
    tools: createToolCaller(tools, ruleOn),
    summariser: {
      ...code.summariser,
      model,
      gate: () => ({ key: "model:chaos/summary", model: "chaos" }),
      retry: { attempts: 5, delayMs: 50 },
    },
  });
  return {
    ...agent,
    tools,
    code: toCode(agent.code, undefined),
    codeUnder: (policy) => toCode(agent.codeUnder(policy), (tool) => rulingOn(policy, { agent: agent.name, tool })),
  };
}

function watchedModel(model: ModelClient, { onModelCall }: ChaosAgentOptions): ModelClient {
  if (!onModelCall) return model;
  return {
    call(request) {
      const { runId, turn, attempt } = request;
      onModelCall({ runId, turn, attempt, seq: knownSeq() });
      return model.call(request);
    },
  };
}

function inOnePiece(model: ModelClient): ModelClient {
  return {
    async call(request) {
      let text = "";
      const onText = (piece: string): void => {
        text += piece;
      };
      const outcome = await model.call({ ...request, onText });
      if (text !== "") request.onText(text);
      return outcome;
    },
  };
}

function watched(tool: Tool, options: ChaosAgentOptions): Tool {
  if (tool.answeredBy || isDoneByAgent(tool, options)) return tool;
  if (!tool.child && options.isReal(tool)) return watchTool(tool, options.note);
  const timeoutMs = Math.min(tool.timeoutMs, stubTimeoutMs);
  const stubbed: Tool = { ...tool, timeoutMs, rate: undefined, approvalExpiresMs: undefined, child: undefined };
  return watchTool({ ...stubbed, execute: (_args, context) => stub(tool, context, options) }, options.note);
}

/** The same tool, but that each of its executions is noted as it begins and as it ends. */
export function watchTool(tool: Tool, note: ChaosAgentOptions["note"]): Tool {
  return {
    ...tool,
    execute: async (args, context) => {
      const { runId, callId, idempotencyKey: key, attempt } = context;
      const tell = (
        what:
          | { type: "begun"; seq: number | undefined }
          | { type: "ended"; outcome: "ok" | "retry" | "failed" | "threw"; result?: string },
      ) => note({ ...what, tool: tool.name, runId, callId, key, attempt, pid: process.pid, at: Date.now() });
      tell({ type: "begun", seq: knownSeq() });
      try {
        const value = await tool.execute(args, context);
        tell({ type: "ended", outcome: "ok", result: hashOf(value) });
        return value;
      } catch (thrown) {
        tell({ type: "ended", outcome: outcomeOf(thrown) });
        throw thrown;
      }
    },
  };
}

function outcomeOf(thrown: unknown): "retry" | "failed" | "threw" {
  if (thrown instanceof RetryableError) return "retry";
  return thrown instanceof PermanentError ? "failed" : "threw";
}

/** What is noted of a result. */
export function hashOf(value: unknown): string {
  return hashText(JSON.stringify(value) ?? "undefined").slice(0, 12);
}

/** Takes a little while, and now and then asks to be called again. The same call gets the same result. */
async function stub(
  tool: Tool,
  { runId, callId, attempt, signal }: ToolContext,
  options: ChaosAgentOptions,
): Promise<string> {
  const random = randomFor(options.seed, "stub", stableName(runId), callId, attempt);
  const takesMs = random.between(0, options.stubMs ?? 0);
  if (attempt === 1 && random.chance(1 / 8)) throw new RetryableError(`${tool.name} is busy`, { delayMs: 50 });
  if (takesMs > 0) await sleep(takesMs, undefined, { signal });
  return `${tool.name}: stub of ${callId} in ${runId}`;
}
