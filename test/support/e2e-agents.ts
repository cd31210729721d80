// The agents of the end-to-end tests, as the command line's `worker` loads them. Their model is the test's fake server,
// which thereby decides what happens.
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { watchTool } from "../../src/chaos/chaos-agent.ts";
import { childFailurePolicies } from "../../src/core/child.ts";
import { type Agent, defineAgent } from "../../src/define-agent.ts";
import { openai } from "../../src/openai/openai.ts";
import { agentTool } from "../../src/tools/agent-tool.ts";
import { defineTool, type Tool, type ToolContext } from "../../src/tools/define-tool.ts";
import { readE2eOptions } from "./e2e-options.ts";
import { visitGate } from "./gate.ts";
import { hurtfulTools } from "./hurtful-tools.ts";
import { openLedger } from "./ledger.ts";
import { makePng } from "./png.ts";

const options = readE2eOptions();
const ledger = openLedger(options.ledgerDir);
const parameters = z.object({
  note: z.string().describe("What it is about"),
  hold: z.boolean().optional().describe("Wait for the test"),
  bytes: z.int().optional().describe("Length of the result"),
  block: z.boolean().optional().describe("Hold up the whole process until the test unblocks it"),
  takeMs: z.int().optional().describe("How long it takes"),
  spinMs: z.int().optional().describe("How long it holds up the whole process"),
});
type Arguments = z.output<typeof parameters>;

async function act(
  tool: string,
  { note, hold, block, bytes, takeMs, spinMs = 0 }: Arguments,
  context: ToolContext,
): Promise<string> {
  const { runId, callId, attempt, signal } = context;
  if (takeMs !== undefined) await sleep(takeMs, undefined, { signal });
  for (const until = Date.now() + spinMs; Date.now() < until; ) continue;
  if (block) ledger.waitUnblocked();
  if (hold) return visitGate(options.gateUrl, { what: tool, runId, callId, attempt }, signal);
  return bytes === undefined
    ? `${tool}: ${note}`
    : `${note} `.repeat(Math.ceil(bytes / (note.length + 1))).slice(0, bytes);
}

type Behaviour = Pick<Tool, "name"> &
  Partial<Pick<Tool, "effect" | "idempotent" | "queue" | "approvalExpiresMs" | "breaker" | "fallback">>;

function tool(behaviour: Behaviour, execute: (args: Arguments, context: ToolContext) => Promise<unknown>): Tool {
  const { name } = behaviour;
  const { toolTimeoutMs: timeoutMs } = options;
  const made = defineTool({
    description: `The tool ${name}. Example: {"note":"a"}`,
    parameters,
    ...behaviour,
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    execute,
  });
  return watchTool(made, ledger.note);
}

const plain = (behaviour: Behaviour): Tool => tool(behaviour, (args, context) => act(behaviour.name, args, context));
const { approvalExpiresMs } = options;

const tools: Tool[] = [
  plain({ name: "look", effect: "read" }),
  ...(options.ownQueue === undefined ? [] : [plain({ name: "browse", effect: "read", queue: options.ownQueue })]),
  plain({ name: "post", effect: "write" }),
  plain({ name: "pay", effect: "irreversible" }),
  plain({ name: "offer", effect: "irreversible", ...(approvalExpiresMs ? { approvalExpiresMs } : {}) }),
  tool({ name: "put", effect: "write", idempotent: true }, async (args, context) => {
    const result = await act("put", args, context);
    ledger.once(context.idempotencyKey);
    return result;
  }),
  tool({ name: "stay", effect: "read" }, async (args, context) => {
    const result = await act("stay", args, context);
    const { runId, callId, attempt, idempotencyKey: key } = context;
    ledger.begin({ tool: "stay_end", runId, callId, key, attempt });
    return result;
  }),
  tool(
    { name: "fail", effect: "read", breaker: { failures: 3, openMs: 60_000 }, fallback: "look" },
    async (args, context) => {
      await act("fail", args, context);
      throw new Error("the service behind it is down");
    },
  ),
  tool({ name: "die", effect: "read" }, async (args, context) => {
    const result = await act("die", args, context);
    process.kill(process.pid, "SIGKILL");
    return result;
  }),
  ...hurtfulTools(tool, ledger),
  tool({ name: "draw", effect: "read" }, async ({ note, bytes, ...args }, context) => {
    const said = await act("draw", { note, ...args }, context);
    return { said, drawing: makePng(8, 8, bytes) };
  }),
];

const handOn: Tool[] = childFailurePolicies.map((onFailure) =>
  agentTool({ agent: options.agents[0] ?? "e2e", name: `hand_${onFailure}`, onFailure, retries: 1 }),
);

/** What an agent named `typed` answers. */
const output = z.object({ city: z.string().describe("Where"), degrees: z.number().describe("How warm") });

export const agents: Agent[] = options.agents.map((name) =>
  defineAgent({
    name,
    ...(name === "typed" ? { output } : {}),
    instructions: "Do as you are told.",
    model: openai({
      model: options.ownModels ? name : "fake",
      baseURL: options.baseURL,
      apiKey: "k",
      retry: { attempts: 4, delayMs: 100 },
    }),
    tools: options.handOn ? [...tools, ...handOn] : tools,
    limits: options.maxTurns === undefined ? {} : { maxTurns: options.maxTurns },
  }),
);
