// The agents of the soak: every kind of tool, wait and end that a run can have. Their tools are executed for real.
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { openLedger } from "../../src/chaos/ledger.ts";
import { randomFor } from "../../src/chaos/random.ts";
import { makeCall, makeScripts, type Scripts } from "../../src/chaos/script.ts";
import { PermanentError, RetryableError } from "../../src/core/errors.ts";
import { type Agent, defineAgent } from "../../src/define-agent.ts";
import { recordEffect, scriptedModel } from "../../src/testing/index.ts";
import { agentTool } from "../../src/tools/agent-tool.ts";
import { defineTool, type Tool, type ToolOptions } from "../../src/tools/define-tool.ts";
import { askPerson } from "../../src/tools/stock/ask-person.ts";

const parameters = z.object({
  note: z.string().describe("What it is about"),
  count: z.int().min(0).max(99).optional(),
});
type Options = ToolOptions<typeof parameters>;
type Context = Parameters<Options["execute"]>[1];

/** Some take no time, some as long as a lock; some are busy at first. */
async function act(name: string, { idempotencyKey, attempt, signal }: Context): Promise<string> {
  const random = randomFor(1, name, idempotencyKey, attempt);
  if (attempt === 1 && random.chance(0.1)) throw new RetryableError(`${name} is busy`, { delayMs: 300 });
  if (random.chance(0.02)) throw new PermanentError(`${name} refuses`);
  await sleep(random.chance(0.05) ? random.between(500, 2_500) : random.between(0, 60), undefined, { signal });
  return `${name} did ${idempotencyKey}`;
}

function tool(name: string, more: Partial<Options>): Tool {
  return defineTool({
    name,
    description: `The tool ${name}. Example: {"note":"a"}`,
    parameters,
    timeoutMs: 4_000,
    breaker: false,
    execute: (_args, context) => act(name, context),
    ...more,
  });
}

/** Its effect takes place once for each key, whoever executes it. */
async function put(context: Context): Promise<string> {
  const result = await act("put", context);
  const { dir = "." } = JSON.parse(process.env.DROVER_CHAOS_WORKER ?? "{}") as { dir?: string };
  if (openLedger(dir).once(context.idempotencyKey)) recordEffect(context.idempotencyKey, "put");
  return result;
}

const look = tool("look", { effect: "read" });
const post = tool("post", { effect: "write" });
const putTool = tool("put", { effect: "write", idempotent: true, execute: (_args, context) => put(context) });
const pay = tool("pay", { effect: "irreversible" });
const offer = tool("offer", { effect: "irreversible", approvalExpiresMs: 1_500 });
const maybe = tool("maybe", { effect: "write", approval: ({ count = 0 }) => count > 50 });
const long = tool("long", {
  effect: "read",
  execute: async (_args, context) => `${await act("long", context)} `.repeat(2_000),
});
const model = scriptedModel([]);
const instructions = "Do as you are told.";

const errand = defineAgent({ name: "errand", instructions, model, tools: [look, post, putTool, pay, askPerson()] });
const wide = defineAgent({ name: "wide", instructions, model, tools: [look, post, putTool, maybe] });
const careful = defineAgent({
  name: "careful",
  instructions,
  model,
  tools: [look, offer, maybe, long],
  output: z.object({ city: z.string(), degrees: z.number() }),
  verify: ({ city }) => city.length > 0,
  window: { budgetTokens: 3_000, lastTurns: 2 },
});
const hasty = defineAgent({ name: "hasty", instructions, model, tools: [look, post], limits: { deadlineMs: 60_000 } });

/** What others hand on is worked on with reads, writes that ask and writes that may not run twice. */
const hand = defineAgent({ name: "hand", instructions, model, tools: [look, post, putTool, maybe] });
/** A child that has children of its own. */
const foreman = defineAgent({
  name: "foreman",
  instructions,
  model,
  tools: [post, agentTool({ agent: hand, name: "hand_on" })],
});
const short = { agent: hand, limits: { maxTurns: 1 } };
/** Waits for its children: one that answers, one with children, one that fails and is retried, one whose failure is its own. */
const boss = defineAgent({
  name: "boss",
  instructions,
  model,
  tools: [
    look,
    post,
    agentTool({ agent: hand, name: "hand_on" }),
    agentTool({ agent: foreman, name: "hand_down", approval: "always" }),
    agentTool({ ...short, name: "hand_again", onFailure: "retry", retries: 1 }),
    agentTool({ ...short, name: "hand_strictly", onFailure: "fail" }),
  ],
});

export const agents: Agent[] = [errand, wide, careful, hasty, boss, foreman, hand];

/** What the model says: made up, but for "wide", which calls a dozen tools at once. */
export function scriptsOf(agent: Agent, seed: number): Scripts {
  if (agent !== wide && agent.name !== wide.name) return makeScripts(agent, seed);
  return (runId) => {
    const random = randomFor(seed, "wide", runId);
    const fan = (): ReturnType<typeof makeCall>[] =>
      Array.from({ length: 12 }, () => makeCall(random.pick(agent.tools), random));
    const turn = (text: string) => ({ text, toolCalls: fan().filter((call) => call !== undefined) });
    return [turn("a dozen"), turn("and another"), { text: `answer of ${runId}`, toolCalls: [] }];
  };
}
