import { z } from "zod";
import { type Agent, defineAgent } from "../../../src/define-agent.ts";
import { scriptedModel } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";

export type ScriptedAgentOptions = {
  turnCount: number;
  /** What the model says in each turn. */
  text?: (turn: number) => string;
  /** What its tool is given and gives back. */
  note?: (turn: number) => string;
};

/** An agent named `scripted` that calls a tool in each turn but the last, for runs in the test's own process. */
export function scriptedAgent({ turnCount, text = String, note = String }: ScriptedAgentOptions): Agent {
  const look = defineTool({
    name: "look",
    description: 'Looks. Example: {"note":"a"}',
    parameters: z.object({ note: z.string() }),
    effect: "read",
    maxResultTokens: 100_000,
    execute: (args) => args.note,
  });
  const script = Array.from({ length: turnCount }, (_, index) => {
    const turn = index + 1;
    const toolCalls = turn === turnCount ? [] : [{ name: "look", arguments: { note: note(turn) } }];
    return { text: text(turn), toolCalls };
  });
  const limits = { maxTurns: turnCount };
  return defineAgent({ name: "scripted", instructions: "Go on.", model: scriptedModel(script), tools: [look], limits });
}

/** An agent named `wide` that calls its tool so many times at once, and then answers. */
export function wideAgent(width: number, note: string): Agent {
  const look = defineTool({
    name: "look",
    description: 'Looks. Example: {"note":"a"}',
    parameters: z.object({ note: z.string() }),
    effect: "read",
    execute: (args) => args.note,
  });
  const toolCalls = Array.from({ length: width }, (_, index) => ({
    name: "look",
    arguments: { note: `${note} ${index}` },
  }));
  return defineAgent({
    name: "wide",
    instructions: "Go on.",
    model: scriptedModel([{ toolCalls }, "done"]),
    tools: [look],
  });
}
