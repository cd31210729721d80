// A worker of scripts/kill-to-resume.ts: its one tool waits the first time it is called, which is where its worker dies.
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import type { Script } from "../../src/chaos/script.ts";
import { readWorkerOptions, runChaosWorker } from "../../src/chaos/worker.ts";
import { defineAgent } from "../../src/define-agent.ts";
import { scriptedModel } from "../../src/testing/index.ts";
import { defineTool } from "../../src/tools/define-tool.ts";

const options = readWorkerOptions();
const nap = defineTool({
  name: "nap",
  description: "Waits. Example: {}",
  parameters: z.object({}),
  effect: "read",
  execute: async (_args, { runId, signal }) => {
    const begun = join(options.dir, `${runId}.begun`);
    if (existsSync(begun)) return "awake";
    writeFileSync(begun, "");
    await sleep(60_000, undefined, { signal });
    return "slept through";
  },
});
const agent = defineAgent({ name: "sleeper", instructions: "Sleep.", model: scriptedModel([]), tools: [nap] });
const script: Script = [
  { text: "a nap", toolCalls: [{ name: "nap", arguments: {} }] },
  { text: "awake", toolCalls: [] },
];

await runChaosWorker(options, { agents: [agent], scriptsOf: () => () => script, isReal: () => true });
