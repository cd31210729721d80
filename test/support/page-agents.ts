// Agents for tests of the pages: what their model does depends on the input's first word.
import { z } from "zod";
import { textOf } from "../../src/core/message.ts";
import { type Agent, defineAgent } from "../../src/define-agent.ts";
import type { ModelRequest } from "../../src/ports.ts";
import { type ScriptedStep, scriptedModel } from "../../src/testing/scripted-model.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { askPerson } from "../../src/tools/stock/ask-person.ts";

export const hostile = `</pre></script><script>window.hacked=1;alert(1)</script><img src=x onerror="alert(2)">"'><svg/onload=alert(3)>\u202Eevil\u202C \u001B[31mred`;
export const large = `${"word ".repeat(200_000)}END`;

export type PageAgentsOptions = {
  /** Resolves when the model may go on after its n-th piece of text, from 1. */
  mayGoOn?: (piece: number) => Promise<void>;
};

/** `plain`: answers; `pay`: asks for approval; `ask`: asks a person; `loop`: calls a tool at each turn; and so on. */
export function pageAgents({ mayGoOn = async () => {} }: PageAgentsOptions = {}): Agent[] {
  const look = defineTool({
    name: "look",
    description: 'Looks. Example: {"at":"1"}',
    parameters: z.object({ at: z.string().describe("What at") }),
    effect: "read",
    maxResultTokens: 400_000,
    execute: ({ at }) => (at === "large" ? large : at === "hostile" ? hostile : `seen ${at}`),
  });
  const pay = defineTool({
    name: "pay",
    description: 'Pays. Example: {"amount":12}',
    parameters: z.object({ amount: z.number().describe("How much"), note: z.string().optional().describe("What for") }),
    effect: "irreversible",
    describe: ({ amount, note = "" }) => `Pay ${amount} euros ${note}`.trim(),
    execute: ({ amount }) => `paid ${amount}`,
  });
  const call = (name: string, args: Record<string, unknown>): ScriptedStep => ({
    toolCalls: [{ name, arguments: args }],
  });

  async function stumble(attempt: number, onText: (text: string) => void): Promise<ScriptedStep> {
    onText(attempt === 1 ? "Wrong way to go about this, as one will see." : "Right");
    await mayGoOn(attempt);
    if (attempt > 1) return { text: "Right way" };
    return { fail: { class: "transient", code: "cut", message: "the line was cut" } };
  }

  async function flood(onText: (text: string) => void): Promise<ScriptedStep> {
    const words = Array.from({ length: 3_000 }, (_, index) => `of all the words there are this is word ${index} `);
    for (const word of words) onText(word);
    onText("and that is all that there is to be said of words. ");
    await mayGoOn(1);
    return { text: "That was a lot." };
  }

  async function say({ messages, turn, attempt, onText, signal }: ModelRequest): Promise<ScriptedStep> {
    const first = textOf(messages.find(({ role }) => role === "user")?.content ?? "");
    const [word = ""] = first.split(" ");
    if (word === "loop") return call("look", { at: String(turn) });
    if (turn > 1) return word === "hostile" ? hostile : `Done after ${turn} turns.`;
    if (word === "pay") return call("pay", { amount: 12, note: first.includes("hostile") ? hostile : "for the cat" });
    if (word === "ask") return call("ask_person", { question: "Which address?", choices: ["home", "office"] });
    if (word === "hostile") return call("look", { at: "hostile" });
    if (word === "large") return call("look", { at: "large" });
    if (word === "stumble") return stumble(attempt, onText);
    if (word === "flood") return flood(onText);
    if (word !== "write") return "Hello.";
    // The last words are held back until it is sure that they are no part of a secret.
    const pieces = [
      "The quick brown fox jumps over the lazy dog, ",
      "which sleeps in the sun and dreams of rabbits ",
      "of gold.",
    ];
    for (const [index, piece] of pieces.entries()) {
      onText(piece);
      await Promise.race([mayGoOn(index + 1), new Promise((resolve) => signal.addEventListener("abort", resolve))]);
    }
    return { text: pieces.join("") };
  }

  return [
    defineAgent({
      name: "tester",
      instructions: "Do as the first word says.",
      model: scriptedModel(
        Array.from({ length: 1_100 }, () => say),
        { model: "fake-1" },
      ),
      tools: [look, pay, askPerson()],
      limits: { maxTurns: 1_050 },
    }),
  ];
}
