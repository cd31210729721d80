// Drover as users run it, with a model and tools that take no time: what is left is Drover's own cost.
import { z } from "zod";
import { createDrover, defineAgent, defineTool } from "../src/index.ts";
import type { ModelClient, ModelSpec } from "../src/ports.ts";
import { cpuMsSince, type Outcome, serve, type Task } from "./protocol.ts";

const redis = process.argv[2] as string;
const prefix = process.argv[3] ?? "{drover-bench}";
const firstRun = /-0$/;

let gaps: number[] = [];
let lastAt = 0;
function mark(runId: string): void {
  if (!firstRun.test(runId)) return;
  const now = performance.now();
  if (lastAt > 0) gaps.push(now - lastAt);
  lastAt = now;
}

const usage = { inputTokens: 10, outputTokens: 5, cachedTokens: 0 };
/** Steps of a run by its name: `b<steps>-...`; a turn with a call is two of them. */
const client: ModelClient = {
  async call({ runId, turn }) {
    mark(runId);
    const steps = Number(/^b(\d+)-/.exec(runId)?.[1]);
    const last = turn * 2 > steps;
    const toolCalls = last
      ? []
      : [
          {
            id: `call${turn}`,
            name: runId.includes("-write-") ? "note" : "look",
            arguments: `{"topic":"day ${turn}"}`,
          },
        ];
    return {
      type: "reply",
      reply: { content: last ? "done" : null, toolCalls },
      finishReason: "stop",
      usage,
      dropped: [],
    };
  },
};
const model: ModelSpec = { model: "instant", provider: "drover", retry: { attempts: 3, delayMs: 100 }, client };
const parameters = z.object({ topic: z.string().describe("what about") });
const execute = (_args: { topic: string }, { runId }: { runId: string }): string => {
  mark(runId);
  return "sunny";
};
const look = defineTool({ name: "look", description: "Looks.", parameters, effect: "read", execute });
const note = defineTool({ name: "note", description: "Notes.", parameters, effect: "write", execute });
const agent = defineAgent({
  name: "bench",
  instructions: "",
  model,
  tools: [look, note],
  limits: { maxTurns: 100_000 },
});

const drover = createDrover({ redis, prefix, agents: [agent] });
// As many steps at once as the chain has: half on the model queue, half on the tool queue.
const worker = await drover.work({ concurrency: 100 });

let round = 0;
async function measure({ runs, steps, tool }: Task): Promise<Outcome> {
  gaps = [];
  lastAt = 0;
  round += 1;
  const cpu = process.cpuUsage();
  const started = performance.now();
  const handles = await Promise.all(
    Array.from({ length: runs }, (_, index) =>
      drover.start(agent, "go", { runId: `b${steps}-${tool}-${process.pid}.${round}-${index}` }),
    ),
  );
  const results = await Promise.all(handles.map((run) => run.result()));
  const elapsedMs = performance.now() - started;
  const failed = results.find(({ status }) => status !== "completed");
  if (failed) throw new Error(`a run did not complete: ${JSON.stringify(failed)}`);
  return { elapsedMs, cpuMs: cpuMsSince(cpu), gaps };
}

serve(measure, async () => {
  await worker.stop();
  await drover.close();
});
