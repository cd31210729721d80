// The agents of the scene: their models follow a script by the words of the input, and time passes when they say so.
import { z } from "zod";
import { PermanentError, RetryableError } from "../../src/core/errors.ts";
import { textOf } from "../../src/core/message.ts";
import { type Agent, defineAgent } from "../../src/define-agent.ts";
import type { ModelRequest, ModelSpec } from "../../src/ports.ts";
import type { ManualClock } from "../../src/testing/manual-clock.ts";
import { type ScriptedReply, type ScriptedTurn, scriptedModel } from "../../src/testing/scripted-model.ts";
import { defineTool, type Tool } from "../../src/tools/define-tool.ts";
import { askPerson } from "../../src/tools/stock/ask-person.ts";

/** - `takes`: how long the call of the model lasts, in ms; - `hangs`: it never comes to an end. */
export type Line = ScriptedTurn & { takes?: number; hangs?: boolean };
/** What the model says at each turn, by a word of the input. */
export type Plays = Record<string, readonly Line[]>;

const price = { in: 1.25e-6, out: 1e-5 };

/** A model that plays what the first input asks for. */
function actor(clock: ManualClock, model: string, plays: Plays): ModelSpec {
  const turn: ScriptedReply = async (request) => {
    const line = lineOf(plays, request);
    clock.advance(line.takes ?? 1_400);
    if (line.hangs) await new Promise<void>((resolve) => request.signal.addEventListener("abort", () => resolve()));
    if (line.fail && request.attempt === 1) return line;
    const size = JSON.stringify(request.messages).length;
    const inputTokens = 600 + Math.round(size / 4);
    const outputTokens = 20 + Math.round(JSON.stringify([line.text, line.toolCalls]).length / 4);
    const costUsd = inputTokens * price.in + outputTokens * price.out;
    const cachedTokens = request.turn > 1 ? Math.round(inputTokens * 0.7) : 0;
    return { ...line, fail: undefined, usage: { inputTokens, outputTokens, cachedTokens, costUsd } };
  };
  return scriptedModel(
    Array.from({ length: 60 }, () => turn),
    { model },
  );
}

function lineOf(plays: Plays, { messages, turn, onText }: ModelRequest): Line {
  const input = messages.map(({ content }) => textOf(content)).join("\n");
  const play = Object.entries(plays).find(([word]) => input.includes(word))?.[1] ?? [];
  const line = play[Math.min(turn, play.length) - 1] ?? { text: "Done." };
  if (line.hangs) for (const piece of line.deltas ?? []) onText(piece);
  return line;
}

const paragraphs = [
  "A stream is a log: entries are only ever added, each with an id that is larger than the one before. Readers keep their own place, so that many of them can read the same entries, each at its own pace. A group of readers shares the entries out: an entry that was given to one and not acknowledged stays on that reader's list, and another may claim it once it has been idle for long enough.",
  "Snapshots write the whole of the data to a file at intervals; what came after the last one is lost in a crash. The append-only file keeps every write. It is rewritten in the background when it has grown too large, without a pause for those who write.",
  "A list is pushed to at one end and popped at the other. What was popped is gone from the server: if its reader ends before it is done, so is the work. Moving an element to a second list in one step keeps it until it is removed from there.",
];

const orders = {
  "A-20417": {
    customer: "Mira Lindqvist",
    placed: "2026-11-18",
    items: [{ sku: "KB-75-ISO", name: "Keyboard, 75 %, Nordic", qty: 1, price: 129.0 }],
    shipped: "2026-11-19",
    carrier: "PostNord",
    status: "delivered",
  },
};

function tools(clock: ManualClock): Record<string, Tool> {
  const take = <T>(ms: number, value: T): T => {
    clock.advance(ms);
    return value;
  };
  let flaky = 0;
  return {
    getOrder: defineTool({
      name: "get_order",
      description: 'Looks an order up. Example: {"id":"A-20417"}',
      parameters: z.object({ id: z.string().describe("Order number") }),
      effect: "read",
      execute: ({ id }) => take(180, orders[id as keyof typeof orders] ?? { error: `no order ${id}` }),
    }),
    searchPolicy: defineTool({
      name: "search_policy",
      description: 'Searches the handbook. Example: {"query":"returns"}',
      parameters: z.object({ query: z.string().describe("Words to look for") }),
      effect: "read",
      concurrency: 8,
      execute: ({ query }) =>
        take(420, {
          query,
          hits: [
            { title: "Returns within 30 days", text: "Unused goods may be returned within 30 days of delivery." },
            {
              title: "Faulty goods",
              text: "Faulty goods are replaced or refunded within two years, shipping included.",
            },
          ],
        }),
    }),
    refund: defineTool({
      name: "issue_refund",
      description: 'Pays money back. Example: {"order":"A-20417","amount":129}',
      parameters: z.object({
        order: z.string().describe("Order number"),
        amount: z.number().describe("In euros"),
        reason: z.string().describe("Why"),
      }),
      effect: "irreversible",
      approvalExpiresMs: 4 * 3_600_000,
      describe: ({ order, amount }) => `Pay €${amount.toFixed(2)} back to the customer of order ${order}`,
      execute: ({ order }) => take(900, { order, refund: "re_81c2", state: "paid" }),
    }),
    fetchPage: defineTool({
      name: "fetch_page",
      description: 'Fetches a page. Example: {"url":"https://example.org"}',
      parameters: z.object({ url: z.string().describe("Address") }),
      effect: "read",
      rate: { max: 120, perMs: 60_000 },
      retry: { attempts: 3, delayMs: 2_000 },
      execute: ({ url }) => {
        flaky += 1;
        if (flaky === 1) {
          clock.advance(900);
          throw new RetryableError("503 from the site: it is overloaded");
        }
        if (url.includes("gone")) throw new PermanentError(`404: there is no page ${url}`);
        return take(760, `# ${url}\n\n${paragraphs[url.length % paragraphs.length]}`);
      },
    }),
    migrate: defineTool({
      name: "run_migration",
      description: 'Runs a database migration. Example: {"name":"0042_index"}',
      parameters: z.object({ name: z.string().describe("Name of the migration") }),
      effect: "irreversible",
      approval: ({ name }) => name.startsWith("drop"),
      execute: () => {
        clock.advance(2_600);
        throw new Error("connection reset by peer");
      },
    }),
    deploy: defineTool({
      name: "deploy",
      description: 'Rolls a version out. Example: {"service":"api","version":"4.1.0"}',
      parameters: z.object({ service: z.string().describe("Name"), version: z.string().describe("Version") }),
      effect: "irreversible",
      describe: ({ service, version }) => `Roll out ${service} ${version} to production, one region after the other`,
      execute: () => take(4_000, { state: "rolled out" }),
    }),
  };
}

/** Every agent that the scene's runs are of. */
export function sceneAgents(clock: ManualClock, plays: Plays): Agent[] {
  const { getOrder, searchPolicy, refund, fetchPage, migrate, deploy } = tools(clock) as Record<string, Tool> &
    Record<"getOrder" | "searchPolicy" | "refund" | "fetchPage" | "migrate" | "deploy", Tool>;
  const large = actor(clock, "gpt-5-mini", plays);
  return [
    defineAgent({
      name: "support",
      instructions: "You help customers of a shop. Look orders up before you answer. Be brief and kind.",
      model: large,
      tools: [getOrder, searchPolicy, refund, askPerson()],
      version: "12",
    }),
    defineAgent({
      name: "researcher",
      instructions: "You answer questions with sources. Fetch pages; say which sentence rests on which page.",
      model: large,
      tools: [fetchPage, searchPolicy],
      limits: { maxTurns: 6 },
      version: "7",
    }),
    defineAgent({
      name: "historian",
      instructions: "You go through archives, one page after the other, and keep notes.",
      model: large,
      tools: [fetchPage],
      window: { budgetTokens: 3_000, lastTurns: 3, remindEvery: 3 },
      limits: { maxTurns: 60 },
    }),
    defineAgent({
      name: "release-manager",
      instructions: "You prepare and carry out releases.",
      model: large,
      tools: [migrate, deploy],
      version: "3",
    }),
  ];
}
