// Any process can end a run. The cancellation is committed, then announced; the worker in the middle of a step aborts
// what it is doing. A tool sees it on `ctx.signal`.
import { deepEqual, equal, ok } from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { createDrover, defineAgent, defineTool } from "../src/index.ts";
import { scriptedModel } from "../src/testing/index.ts";
import { findRedis } from "./support/redis.ts";

const began = Promise.withResolvers<void>();
const aborted = Promise.withResolvers<number>();
const render = defineTool({
  name: "render",
  description: 'Renders a film. Takes an hour. Example: {"film":"intro"}',
  parameters: z.object({ film: z.string().describe("Name of the film, e.g. intro") }),
  effect: "read",
  timeoutMs: 3_600_000,
  execute: async (_args, { signal }) => {
    signal.addEventListener("abort", () => aborted.resolve(performance.now()));
    began.resolve();
    await sleep(3_600_000, undefined, { signal }); // hand the signal on to whatever you await
  },
});

const studio = defineAgent({
  name: "studio",
  instructions: "You render films.",
  model: scriptedModel([{ toolCalls: [{ name: "render", arguments: { film: "intro" } }] }, "Rendered."]),
  tools: [render],
});

const redis = await findRedis();
const worker = createDrover({ redis, agents: [studio] });
await worker.work();
const elsewhere = createDrover({ redis }); // a client of its own, as another process has: no agents, no worker
const run = await elsewhere.start("studio", "Render the intro.");

await began.promise;
const cancelledAt = performance.now();
equal(await run.cancel({ by: "ada", reason: "wrong film" }), true);
console.log(`the tool was aborted ${((await aborted.promise) - cancelledAt).toFixed(0)} ms after the call of cancel()`);

const { status, stopReason, error } = await run.result({ timeoutMs: 30_000 });
console.log(`${status}: ${error?.message}`);
deepEqual([status, stopReason], ["cancelled", "cancelled"]);
// The transcript stays valid: the open call was answered.
const last = (await run.transcript()).at(-1);
ok(last?.role === "tool" && last.outcome === "cancelled");
equal(await run.cancel(), false); // it had ended already
await elsewhere.close();
await worker.close();
