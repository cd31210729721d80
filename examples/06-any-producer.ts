// Whatever can add a BullMQ job can start a run: this producer uses BullMQ alone, and nothing of Drover. A job that does
// not fit the contract stops no worker; it leaves a `rejected` record with the reason, and its id stays free.
import { equal, match } from "node:assert/strict";
import { Queue } from "bullmq";
import { createDrover, defineAgent } from "../src/index.ts";
import { scriptedModel } from "../src/testing/index.ts";
import { findRedis } from "./support/redis.ts";

const redis = await findRedis();

// #region producer
const runs = new Queue("runs", { prefix: "{drover}:q", connection: { url: redis } });
await runs.add("start", { agent: "greeter", input: "Greet Ada." }, { jobId: "greet-ada" });
// #endregion
const bob = `greet-bob-${Date.now()}`;
await runs.add("start", { agent: "greeter", input: 42, limits: { maxTurns: "ten" } }, { jobId: bob });

const greeter = defineAgent({ name: "greeter", instructions: "You greet.", model: scriptedModel(["Good morning!"]) });
const drover = createDrover({ redis, agents: [greeter] });
await drover.work();

/** A run that comes by the queue exists once a worker has taken its job. */
async function untilTaken(runId: string): Promise<void> {
  while ((await drover.list()).runs.every((run) => run.runId !== runId)) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

await untilTaken("greet-ada");
const good = await drover.get("greet-ada").result({ timeoutMs: 30_000 });
console.log(`greet-ada: ${good.status}, ${good.output}`);
equal(good.status, "completed");

await untilTaken(bob);
const bad = await drover.get(bob).result({ timeoutMs: 30_000 });
console.log(`${bob}: ${bad.status}, ${bad.error?.message}`);
equal(bad.status, "rejected");
match(bad.error?.message ?? "", /input.*limits\.maxTurns/s);

// Corrected, under the same id.
await runs.add("start", { agent: "greeter", input: "Greet Bob." }, { jobId: bob });
while ((await drover.get(bob).status()).status === "rejected") {
  await new Promise((resolve) => setTimeout(resolve, 20));
}
const again = await drover.get(bob).result({ timeoutMs: 30_000 });
console.log(`${bob}, corrected: ${again.status}, ${again.output}`);
equal(again.status, "completed");
await runs.close();
await drover.close();
