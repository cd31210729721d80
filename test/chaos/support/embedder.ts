// A program that has Drover inside and handles nothing: no error listener, no handler of rejections. It starts what it is
// told over IPC, prints what failed as it is, and with `hostile` gives Drover a logger, telemetry and user code that throw.
import { inspect } from "node:util";
import { z } from "zod";
import { watchTool } from "../../../src/chaos/chaos-agent.ts";
import { defineAgent } from "../../../src/define-agent.ts";
import { createDrover } from "../../../src/drover.ts";
import { openai } from "../../../src/openai/openai.ts";
import type { Logger, Telemetry } from "../../../src/ports.ts";
import { createNoTelemetry } from "../../../src/telemetry/no-telemetry.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { openLedger } from "../../support/ledger.ts";
import { embedderSchema } from "./embedder-options.ts";

const options = embedderSchema.parse(JSON.parse(process.env.DROVER_EMBEDDER ?? ""));
const { redisUrl: redis, prefix, baseURL, ledgerDir, hostile } = options;

const fail = (): never => {
  throw new Error("this handler always fails");
};
const failLater = async (): Promise<never> => fail();
const brokenLogger = { debug: fail, info: failLater, warn: fail, error: failLater } as unknown as Logger;
const brokenTelemetry = Object.fromEntries(
  Object.keys(createNoTelemetry()).map((name) => [name, fail]),
) as unknown as Telemetry;

const ledger = openLedger(ledgerDir);
const look = (args: { note: string }): string => `seen: ${args.note}`;
const parameters = z.object({ note: z.string().describe("What it is about") });
const described = { description: 'Looks. Example: {"note":"a"}', parameters };
const agent = defineAgent({
  name: "embedded",
  instructions: "Do as you are told.",
  model: openai({ model: "fake", baseURL, apiKey: "k", retry: { attempts: 4, delayMs: 100 } }),
  tools: [
    defineTool({ ...described, name: "look", effect: "read", execute: look }),
    defineTool({ ...described, name: "throw", effect: "read", execute: fail }),
    defineTool({
      ...described,
      name: "guarded",
      effect: "read",
      approval: fail,
      execute: look,
    }),
    defineTool({
      ...described,
      name: "strange",
      effect: "read",
      execute() {
        throw Object.create(null);
      },
    }),
  ].map((tool) => watchTool(tool, ledger.note)),
});

const drover = createDrover({
  redis,
  prefix,
  agents: [agent],
  ...(hostile ? { logger: brokenLogger, telemetry: brokenTelemetry } : {}),
});
process.on("message", (message) => {
  const { runId, input } = z.object({ runId: z.string(), input: z.string() }).parse(message);
  void drover.start("embedded", input, { runId }).then(
    () => process.send?.({ runId, started: true }),
    (error: unknown) => {
      process.stderr.write(`${inspect(error)}\n`); // as console.error does
      process.send?.({ runId, started: false });
    },
  );
});
await drover.work({ graceMs: 1_000 });
process.once("SIGTERM", () => {
  void drover.close().then(() => process.disconnect());
});
process.send?.({ ready: true });
