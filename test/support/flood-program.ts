// A worker whose tools return 100 MB a time, or a little of 100 MB: runs them one after the other and tells what memory it
// takes.
import { z } from "zod";
import { createDrover, defineAgent, defineTool } from "../../src/index.ts";
import { scriptedModel } from "../../src/testing/index.ts";

const [redis = "", prefix = "", runs = "1"] = process.argv.slice(2);
let calls = 0;
const makers: (() => unknown)[] = [
  () => Buffer.alloc(100_000_000, "0123456789").toString(),
  // The whole is kept, and most of it is cut out.
  () => Buffer.alloc(16_000_000, "0123456789").toString(),
  // A part of a text has the whole behind it.
  () => Buffer.alloc(100_000_000, "0123456789").toString().slice(0, 1_000),
  () => ({ bytes: Buffer.alloc(100_000_000), rows: Array.from({ length: 1_000_000 }, (_, id) => ({ id })) }),
];
const flood = defineTool({
  name: "flood",
  description: "Floods.",
  parameters: z.object({}),
  effect: "read",
  execute: () => makers[calls++ % makers.length]?.(),
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
