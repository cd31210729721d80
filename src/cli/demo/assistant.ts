import type { Config } from "../../config.ts";
import { textOf } from "../../core/message.ts";
import { type Agent, defineAgent } from "../../define-agent.ts";
import type { ScriptedReply } from "../../testing/scripted-model.ts";
import { calculator } from "../../tools/stock/calculator.ts";
import { currentTime } from "../../tools/stock/current-time.ts";
import { chooseModel, howToUseRealModel } from "./choose-model.ts";

/** The agent that `drover dev` runs when it is given none, and what it is made of in words. */
export function createAssistant(config: Config): { agent: Agent; about: string } {
  const { model, about, real } = chooseModel(config, script);
  const agent = defineAgent({
    name: "assistant",
    instructions: "You are a helpful assistant. Use the calculator for every calculation.",
    model,
    tools: [calculator(), currentTime()],
  });
  return { agent, about: real ? about : `${about}; ${howToUseRealModel}` };
}

/** Calculates what looks like an expression in the input, and says plainly that it is no model. */
const script: ScriptedReply[] = [
  ({ messages }) => {
    const last = messages.findLast((message) => message.role === "user");
    const expression = /[\d(][\d\s.+\-*/^()]*[\d)]/.exec(last ? textOf(last.content) : "")?.[0];
    if (expression === undefined) return "I am a scripted model: I can only pass an expression to the calculator.";
    return { toolCalls: [{ name: "calculator", arguments: { expression } }] };
  },
  ({ messages }) => {
    const result = messages.findLast((message) => message.role === "tool");
    return `The calculator says ${result ? textOf(result.content) : "nothing"}. (A scripted model answered.)`;
  },
];
