// A process of the trace tests: a worker, or a producer that also decides. The test tells it what to do over IPC; what it
// prints is its log alone, so that a test can read all of it.

import { createRequire } from "node:module";
import { setImmediate as nextTurn } from "node:timers/promises";
import { type Span, trace } from "@opentelemetry/api";
import { z } from "zod";
import { PermanentError, RetryableError, toError } from "../../src/core/errors.ts";
import { type Agent, defineAgent } from "../../src/define-agent.ts";
import { createDrover } from "../../src/drover.ts";
import { openai } from "../../src/openai/openai.ts";
import { createLogger } from "../../src/telemetry/logger.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { visitGate } from "./gate.ts";

const optionsSchema = z.object({
  redisUrl: z.string(),
  prefix: z.string(),
  baseURL: z.string(),
  gateUrl: z.string(),
  instructions: z.string().default("You help travellers."),
  /** Steps at once on each queue; 0: a producer. */
  concurrency: z.int(),
  lockMs: z.int().optional(),
});
export type TraceOptions = z.input<typeof optionsSchema>;

const start = { runId: z.string(), input: z.string(), session: z.string().optional() };
const commandSchema = z.discriminatedUnion("type", [
  z.object({ type: z.literal("start"), traceparent: z.string().optional(), ...start }),
  /** Starts the run under a span of this process. */
  z.object({ type: z.literal("start_in_span"), spanName: z.string(), ...start }),
  z.object({ type: z.literal("approve"), runId: z.string(), callId: z.string() }),
  z.object({ type: z.literal("cancel"), runId: z.string() }),
  z.object({ type: z.literal("retry"), runId: z.string() }),
  /** Which parts of the OpenTelemetry SDK were loaded. */
  z.object({ type: z.literal("loaded") }),
  z.object({ type: z.literal("stop") }),
]);
export type TraceCommand = z.input<typeof commandSchema>;
const messageSchema = z.object({ id: z.int(), command: commandSchema });

const options = optionsSchema.parse(JSON.parse(process.env.DROVER_TRACE_TEST ?? "{}"));
const tracer = trace.getTracer("shop");
const note = z.object({ note: z.string().describe("What it is about") });
const described = (name: string): string => `The tool ${name}. Example: {"note":"a"}`;

function inSpan<T>(name: string, act: (span: Span) => Promise<T>): Promise<T> {
  return tracer.startActiveSpan(name, async (span) => {
    try {
      return await act(span);
    } finally {
      span.end();
    }
  });
}

const look = defineTool({
  name: "look",
  description: described("look"),
  parameters: note,
  effect: "read",
  async execute(_args, { runId, callId, attempt, signal }) {
    await inSpan("look up", async () => {
      await nextTurn();
      tracer.startSpan("query").end();
    });
    return visitGate(options.gateUrl, { what: "look", runId, callId, attempt }, signal);
  },
});
const wait = defineTool({
  name: "wait",
  description: described("wait"),
  parameters: note,
  effect: "read",
  execute: (_args, { runId, callId, attempt, signal }) =>
    visitGate(options.gateUrl, { what: "wait", runId, callId, attempt }, signal),
});
const flaky = defineTool({
  name: "flaky",
  description: described("flaky"),
  parameters: note,
  effect: "read",
  retry: { attempts: 2, delayMs: 10 },
  execute(args, { attempt }) {
    if (attempt === 1) throw new RetryableError(`busy: ${args.note}`);
    return args.note;
  },
});
const broken = defineTool({
  name: "broken",
  description: described("broken"),
  parameters: note,
  effect: "read",
  execute(args) {
    throw new PermanentError(`cannot: ${args.note}`);
  },
});
const pay = defineTool({
  name: "pay",
  description: described("pay"),
  parameters: note,
  effect: "irreversible",
  execute: (args) => `paid: ${args.note}`,
});

function makeAgent(): Agent {
  const { baseURL, instructions } = options;
  return defineAgent({
    name: "traveller",
    instructions,
    model: openai({ model: "fake-1", baseURL, apiKey: "k", retry: { attempts: 3, delayMs: 20 } }),
    tools: [look, wait, flaky, broken, pay],
    request: { temperature: 0.5, max_completion_tokens: 100 },
  });
}

const { redisUrl: redis, prefix, concurrency, lockMs } = options;
const logger = createLogger({ level: "debug" });
const drover = createDrover({ redis, prefix, logger, agents: concurrency > 0 ? [makeAgent()] : [] });

async function obey(command: z.output<typeof commandSchema>): Promise<unknown> {
  switch (command.type) {
    case "start": {
      const { type: _type, input, ...rest } = command;
      return (await drover.start("traveller", input, rest)).id;
    }
    case "start_in_span": {
      const { type: _type, input, spanName, ...rest } = command;
      return inSpan(spanName, async (span) => {
        await drover.start("traveller", input, rest);
        return { traceId: span.spanContext().traceId, spanId: span.spanContext().spanId };
      });
    }
    case "approve":
      return drover.get(command.runId).approve(command.callId, { by: "ann" });
    case "cancel":
      return drover.get(command.runId).cancel({ by: "ann", reason: "not needed" });
    case "retry":
      return drover.get(command.runId).retry({ by: "ann" });
    case "loaded":
      return Object.keys(createRequire(import.meta.url).cache).filter((path) =>
        /@opentelemetry\/(sdk|exporter)-/.test(path),
      );
    case "stop":
      return drover.close();
  }
}

let stopped = false;
process.once("disconnect", () => {
  if (!stopped) process.exit(1); // the test is gone
});
process.on("message", (message) => {
  const { id, command } = messageSchema.parse(message);
  void obey(command)
    .then(
      (value) => ({ id, value }),
      (thrown: unknown) => ({ id, error: toError(thrown).message }),
    )
    .then((reply) => {
      stopped = command.type === "stop";
      process.send?.(reply);
      // From here the process ends by itself, or something was left open.
      if (stopped) process.disconnect();
    });
});
if (concurrency > 0) await drover.work({ concurrency, lockMs });
process.send?.({ id: 0 });
