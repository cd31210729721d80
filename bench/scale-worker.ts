// A worker of `npm run bench:scale`: ordinary, with a model that takes as long as it is told and a tool that takes none.
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { createDrover, defineAgent, defineTool } from "../src/index.ts";
import type { ModelClient } from "../src/ports.ts";
import { createSilentLogger } from "../src/telemetry/logger.ts";
import { cpuMsSince } from "./protocol.ts";

/** What a worker is given, as JSON. `turns`: answers of a run, of which each but the last calls the tool once. */
export type ScaleWorkerOptions = {
  redis: string;
  prefix: string;
  shards: number;
  latencyMs: number;
  concurrency: number;
  turns: number;
};

const options = JSON.parse(process.argv[2] ?? "") as ScaleWorkerOptions;
const { redis, prefix, shards, latencyMs, concurrency, turns } = options;

const client: ModelClient = {
  async call({ turn }) {
    if (latencyMs > 0) await sleep(latencyMs);
    const toolCalls = turn >= turns ? [] : [{ id: `call${turn}`, name: "look", arguments: `{"topic":"day ${turn}"}` }];
    return {
      type: "reply",
      reply: { content: turn >= turns ? "done" : null, toolCalls },
      finishReason: "stop",
      usage: { inputTokens: 10, outputTokens: 5, cachedTokens: 0 },
      dropped: [],
    };
  },
};
const look = defineTool({
  name: "look",
  description: "Looks.",
  parameters: z.object({ topic: z.string().describe("what about") }),
  effect: "read",
  execute: () => "sunny",
});
const agent = defineAgent({
  name: "scale",
  instructions: "",
  model: { model: "timed", provider: "drover", retry: { attempts: 3, delayMs: 100 }, client },
  tools: [look],
  limits: { maxTurns: 1_000 },
});

const drover = createDrover({ redis, prefix, shards, agents: [agent], logger: createSilentLogger() });
await drover.work({ concurrency });
let cpu = process.cpuUsage();
process.on("message", (what: "begin" | "end") => {
  if (what === "end") return void process.send?.(cpuMsSince(cpu));
  cpu = process.cpuUsage();
  process.send?.("begun");
});
process.on("disconnect", () => void drover.close().then(() => process.exit(0)));
process.send?.("ready");
