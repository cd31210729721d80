import { defineAgent } from "../../src/define-agent.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { sweep } from "../../src/engine/sweep.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { type ScriptedReply, scriptedModel } from "../../src/testing/index.ts";
import { type AgentToolOptions, agentTool } from "../../src/tools/agent-tool.ts";
import { type Agent, type Bench, makeBench } from "./support.ts";

export type ToolOptions = Partial<AgentToolOptions<never>>;

/** An agent whose first turn calls these tools at once, and which then answers "done". */
export function makeBoss(tools: ToolOptions[], more: Partial<Parameters<typeof defineAgent>[0]> = {}): Agent {
  const made = tools.map((tool) => agentTool({ agent: "helper", ...tool } as AgentToolOptions<never>));
  const toolCalls = made.map(({ name }, at) => ({ name, arguments: { input: `task ${at + 1}` } }));
  const model = scriptedModel([{ toolCalls }, "done", "done again"]);
  return defineAgent({ name: "boss", instructions: "Hand on.", model, tools: made, ...more }) as Agent;
}

export function makeAgent(name: string, script: ScriptedReply[], more: object = {}): Agent {
  const model = scriptedModel(script, { retry: { attempts: 1, delayMs: 1 } });
  return defineAgent({ name, instructions: name, model, ...more }) as Agent;
}

export const refusal = { fail: { class: "permanent" as const, code: "bad_key", message: "The key is bad." } };

/** One process over a bench that goes on until nothing is left to do; the clock jumps to whatever is due next. */
export type Scene = Bench & { engine: Engine; play(maxSteps?: number): Promise<void>; sweep(): Promise<number> };

export function makeScene(agents: Agent[]): Scene {
  const bench = makeBench();
  const engine = bench.process({ agents });
  return {
    ...bench,
    engine,
    play: () => bench.queue.drain(engine.runStep, { advanceTime: true, maxDeliveries: 500 }),
    sweep: () => sweep({ ...bench, logger: createSilentLogger() }),
  };
}
