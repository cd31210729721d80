// A worker process of the corpus test. It knows an agent for each case in each form, with the tools of the case; what a
// tool was really called with goes to a file, since no reply of a model may be able to hide it.
import { appendFileSync } from "node:fs";
import { runInThisContext } from "node:vm";
import { z } from "zod";
import { type Agent, defineAgent } from "../../src/define-agent.ts";
import { createDrover } from "../../src/drover.ts";
import { openai } from "../../src/openai/openai.ts";
import { createLogger } from "../../src/telemetry/logger.ts";
import { defineTool, type Tool } from "../../src/tools/define-tool.ts";
import { type CorpusCase, type CorpusTool, readCorpus } from "./corpus-cases.ts";

const optionsSchema = z.object({
  redisUrl: z.string(),
  prefix: z.string(),
  /** One JSON line per execution. */
  executions: z.string(),
  agents: z.array(z.object({ name: z.string(), caseId: z.string(), baseURL: z.string(), stream: z.boolean() })),
});
export type CorpusWorkerOptions = z.input<typeof optionsSchema>;

const { redisUrl, prefix, executions, agents } = optionsSchema.parse(
  JSON.parse(process.env.DROVER_CORPUS_WORKER ?? ""),
);
const cases = new Map(readCorpus().map((found) => [found.id, found]));

function toTool({ name, description, parameters, impl }: CorpusTool, { config }: CorpusCase): Tool {
  const body = runInThisContext(`(${impl})`) as (args: unknown) => unknown;
  return defineTool({
    name,
    description,
    parameters,
    effect: "read",
    breaker: false,
    maxResultTokens: Math.floor(config.maxToolResultChars / 4),
    execute: (args, { runId, callId }) => {
      appendFileSync(executions, `${JSON.stringify({ runId, callId, name, args, pid: process.pid })}\n`);
      return body(args);
    },
  });
}

function toAgent({ name, caseId, baseURL, stream }: (typeof agents)[number]): Agent {
  const found = cases.get(caseId);
  if (!found) throw new Error(`there is no case ${caseId}`);
  const { config, system, tools } = found;
  const { idleTimeoutMs, stepTimeoutMs: timeoutMs, maxAttempts: attempts, retryBaseMs: delayMs } = config;
  const model = openai({
    ...{ model: "corpus", baseURL, apiKey: "corpus-key", stream, idleTimeoutMs, timeoutMs },
    retry: { attempts, delayMs },
  });
  const limits = { maxTurns: config.maxSteps };
  return defineAgent({ name, instructions: system, model, tools: tools.map((tool) => toTool(tool, found)), limits });
}

const drover = createDrover({
  ...{ redis: redisUrl, prefix, agents: agents.map(toAgent) },
  logger: createLogger({ level: "error" }),
});
await drover.work({ concurrency: 50, graceMs: 1_000 });
process.once("SIGTERM", () => void drover.close());
process.stdout.write("ready\n");
