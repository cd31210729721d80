// A worker whose tool returns 100 MB a time: runs several of them one after the other and prints what memory it takes.
import { z } from "zod";
import { createDrover, defineAgent, defineTool } from "../../src/index.ts";
import { scriptedModel } from "../../src/testing/index.ts";

const [redis = "", prefix = "", runs = "1"] = process.argv.slice(2);
const flood = defineTool({
  name: "flood",
  description: "Floods.",
  parameters: z.object({}),
  effect: "read",
  execute: () => "0123456789".repeat(10_000_000),
});
const model = scriptedModel([{ toolCalls: [{ name: "flood", arguments: {} }] }, "done"]);
const agent = defineAgent({ name: "flooder", instructions: "", model, tools: [flood] });
const drover = createDrover({ redis, prefix, agents: [agent] });
await drover.work();

function residentMb(): number {
  globalThis.gc?.();
  return process.memoryUsage().rss / 1e6;
}

const after: number[] = [];
for (let run = 0; run < Number(runs); run++) {
  const handle = await drover.start(agent, "go");
  const { status } = await handle.result({ timeoutMs: 30_000 });
  if (status !== "completed") throw new Error(status);
  after.push(Math.round(residentMb()));
}
process.send?.(after);
await drover.close();
process.disconnect?.();
