import { readWorkerOptions, runChaosWorker } from "../../chaos/worker.ts";
import type { Context } from "../context.ts";
import { loadAgents } from "../load-agents.ts";
import { realUnder, toScriptsOf } from "./tools.ts";

/** A worker process of `drover chaos`. */
export async function runWorker(
  context: Context,
  file: string,
  { tools, script }: { tools: string; script?: string },
): Promise<number> {
  const options = readWorkerOptions();
  const agents = await loadAgents(file, context.dir);
  await runChaosWorker(options, { agents, scriptsOf: toScriptsOf(script), isReal: realUnder(tools) });
  return 0;
}
