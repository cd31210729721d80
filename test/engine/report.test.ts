// Catches: a report that tells something else than what happened, above all other requests than those that were sent.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { TurnView } from "../../src/core/report.ts";
import { type AgentOptions, defineAgent } from "../../src/define-agent.ts";
import type { RunHandle } from "../../src/engine/run-handle.ts";
import type { ModelRequest } from "../../src/ports.ts";
import { createMemoryDrover, scriptedModel } from "../../src/testing/index.ts";
import { defineTool } from "../../src/tools/define-tool.ts";

type Reply = Parameters<typeof scriptedModel>[0][number];

/** A model that says `reply` in every turn, and what it was asked. */
function modelOf(reply: (request: ModelRequest) => Reply): {
  model: ReturnType<typeof scriptedModel>;
  asked: ModelRequest[];
} {
  const asked: ModelRequest[] = [];
  const answer = (request: ModelRequest): Exclude<Reply, (request: ModelRequest) => unknown> => {
    asked.push({ ...request, messages: structuredClone(request.messages) });
    return reply(request) as never;
  };
  return { model: scriptedModel(Array.from({ length: 2_000 }, () => answer)), asked };
}

const dig = defineTool({
  name: "dig",
  description: "Digs.",
  parameters: z.object({ n: z.number().describe("where") }),
  effect: "read",
  execute: ({ n }) => `${n}: ${"sand and stone ".repeat(40)}`,
});
const digs = (turn: number): Reply => ({ text: `turn ${turn}`, toolCalls: [{ name: "dig", arguments: { n: turn } }] });

async function play<O = undefined>(options: Omit<AgentOptions<O>, "name" | "instructions">, input = "go") {
  const agent = defineAgent<O>({ name: "a", instructions: "Do it.", ...options });
  const drover = createMemoryDrover({ agents: [agent] });
  await drover.work();
  const run = await drover.start(agent.name, input);
  await run.result({ timeoutMs: 60_000 });
  return { drover, run };
}

/** All turns of a run, page by page. */
async function turnsOf(run: RunHandle, limit = 7): Promise<TurnView[]> {
  const turns: TurnView[] = [];
  for (;;) {
    const page = await run.turns({ from: turns.length + 1, limit });
    turns.push(...page.turns);
    if (turns.length >= page.total) return turns;
  }
}

const sent = ({ instructions, messages, tools, request }: ModelRequest) => ({ instructions, messages, tools, request });
const shown = ({ request }: TurnView) => ({
  instructions: request?.instructions,
  messages: request?.messages,
  tools: request?.tools,
  request: request?.request,
});

describe("requests", () => {
  test("[G6] are shown as they were sent: windows with summaries, reminders, cuts and nudges", async () => {
    const { model, asked } = modelOf(({ turn }) => (turn > 60 ? "found" : digs(turn)));
    const { run } = await play(
      { model, tools: [dig], window: { budgetTokens: 2_500 }, limits: { maxTurns: 100 }, request: { temperature: 0 } },
      "find the needle",
    );
    const turns = await turnsOf(run);
    expect(turns.map(({ turn }) => turn)).toEqual(Array.from({ length: 61 }, (_, index) => index + 1));
    expect(turns.map(shown)).toEqual(asked.map(sent));
    expect(turns.flatMap(({ steps }) => steps).filter(({ kind }) => kind === "summary").length).toBeGreaterThan(3);
    expect(JSON.stringify(turns.at(-1)?.request?.messages)).toContain("Reminder of the task");
  });
});
