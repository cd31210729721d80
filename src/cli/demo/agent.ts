import type { Config } from "../../config.ts";
import { type Message, textOf } from "../../core/message.ts";
import { type Agent, defineAgent } from "../../define-agent.ts";
import type { ModelSpec } from "../../ports.ts";
import type { ScriptedReply } from "../../testing/scripted-model.ts";
import type { Tool } from "../../tools/define-tool.ts";
import { calculator } from "../../tools/stock/calculator.ts";
import { writeFile } from "../../tools/stock/write-file.ts";
import { type ChosenModel, chooseModel } from "./choose-model.ts";
import { once } from "./ledger.ts";
import type { Stage } from "./stage.ts";

export const demoTask: string = [
  "A trip: 3 vans drive 412 km each and burn 8.5 litres per 100 km at 1.72 a litre; 7 people stay 2 nights at 64 each.",
  "Work out the litres and the price of the nights at once, then the price of the fuel, then the sum, each with the",
  "calculator. Then write the sum into trip.txt with write_file, and answer in one sentence.",
].join(" ");
export const demoFile = "trip.txt";
export const demoAgentName = "demo";

/** Where a demo's tools leave what they did. */
export type DemoPlace = { dir: string };
/** Beside the folder the tools may write to, not in it. */
export const toLedgerFile = ({ dir }: DemoPlace): string => `${dir}.ledger.jsonl`;

/** The demo's model, scripted unless a real one is configured. */
export function chooseDemoModel(config: Config): ChosenModel {
  return chooseModel(config, script);
}

/** The demo's agent as its workers run it: each step is reported, each tool holds until it is given the word. */
export function createDemoAgent(config: Config, place: DemoPlace, stage: Stage): Agent {
  return defineAgent({
    name: demoAgentName,
    instructions: "You work out what you are asked with the tools you are given, and never in your head.",
    model: withReports(chooseDemoModel(config).model, stage),
    tools: [calculator(), writeFile({ root: place.dir })].map((tool) => staged(tool, place, stage)),
  });
}

function withReports(model: ModelSpec, stage: Stage): ModelSpec {
  return {
    ...model,
    client: {
      call(request) {
        stage.report({ type: "model", runId: request.runId, turn: request.turn });
        return model.client.call(request);
      },
    },
  };
}

/** The same tool, made idempotent by the ledger. */
function staged(tool: Tool, place: DemoPlace, stage: Stage): Tool {
  return {
    ...tool,
    idempotent: true,
    execute: async (args, context) => {
      const { runId, callId, turn, idempotencyKey: key } = context;
      await stage.hold({ runId, callId, turn, tool: tool.name, args: JSON.stringify(args) }, context.signal);
      return once(toLedgerFile(place), { key, tool: tool.name, callId }, () => tool.execute(args, context));
    },
  };
}

const calculate = (expression: string): { name: string; arguments: Record<string, unknown> } => ({
  name: "calculator",
  arguments: { expression },
});

/** Follows the task with the results that really came back, as a model would. */
const script: ScriptedReply[] = [
  { toolCalls: [calculate("3 * 412 * 8.5 / 100"), calculate("7 * 2 * 64")] },
  ({ messages }) => ({ toolCalls: [calculate(`${numberFrom(messages, 0)} * 1.72`)] }),
  ({ messages }) => ({ toolCalls: [calculate(`${numberFrom(messages, 2)} + ${numberFrom(messages, 1)}`)] }),
  ({ messages }) => ({
    toolCalls: [{ name: "write_file", arguments: { path: demoFile, content: `${numberFrom(messages, 3)}\n` } }],
  }),
  ({ messages }) => `The trip costs ${numberFrom(messages, 3)} in all; the sum is in ${demoFile}.`,
];

/** The number in the n-th tool result, from 0. */
function numberFrom(messages: readonly Message[], index: number): string {
  const result = messages.filter((message) => message.role === "tool")[index];
  return /-?\d+(?:\.\d+)?/.exec(result ? textOf(result.content) : "")?.[0] ?? "0";
}
