// Catches: workers with different agents over one prefix that park each other's runs; one that passes on what nobody takes.
import { expect, inject, onTestFinished, test } from "vitest";
import type { Step } from "../src/core/owed.ts";
import { defineAgent } from "../src/define-agent.ts";
import { createDrover, type Drover } from "../src/drover.ts";
import { createElsewhere } from "../src/elsewhere.ts";
import { createSilentLogger } from "../src/telemetry/logger.ts";
import { scriptedModel } from "../src/testing/scripted-model.ts";
import { worker } from "./contract/presence.contract.ts";
import { eventually } from "./support/eventually.ts";
import { deletePrefix, testPrefix } from "./support/redis.ts";

const step: Step = { runId: "run-a", owedAt: 1, index: 0, kind: "model" };
const known = { ...worker("w"), agents: ["writer"], queues: ["model"] };

test("only a worker that takes steps of that queue, and knows the agent, is told of; what was read holds for two seconds", async () => {
  let at = 0;
  let reads = 0;
  let workers = [known];
  const presence = {
    async workers() {
      reads += 1;
      return workers;
    },
  };
  const elsewhere = createElsewhere(presence, () => at);
  expect(await elsewhere("writer", step)).toBe(true);
  expect(await elsewhere("reader", step)).toBe(false);
  expect(await elsewhere("writer", { ...step, kind: "tool", index: 1, queue: "slow" })).toBe(false);
  workers = [{ ...known, paused: true }];
  expect(await elsewhere("writer", step)).toBe(true);
  expect(reads).toBe(1);
  at = 2_000;
  expect(await elsewhere("writer", step)).toBe(false);
  expect(reads).toBe(2);
});

test("whoever cannot read the fleet knows of nobody", async () => {
  const failing = { workers: () => Promise.reject(new Error("away")) };
  expect(await createElsewhere(failing)("writer", step)).toBe(false);
});

test("[G7] two workers with an agent each over one prefix: a step reaches the one that knows it, and no run is parked", async () => {
  const prefix = testPrefix();
  const open = (name: string): Drover => {
    const agent = defineAgent({ name, instructions: "Answer.", model: scriptedModel([{ text: `${name} is done` }]) });
    return createDrover({ redis: inject("redisUrl"), prefix, agents: [agent], logger: createSilentLogger() });
  };
  const all = [open("writer"), open("reader")];
  onTestFinished(async () => {
    await Promise.all(all.map((drover) => drover.close()));
    await deletePrefix(inject("redisUrl"), prefix);
  });
  await Promise.all(all.map((drover) => drover.work({ concurrency: 2 })));
  const [first] = all as [Drover, Drover];
  await eventually(async () => ((await first.fleet()).workers.length === 2 ? true : undefined));
  const runs = await Promise.all(
    Array.from({ length: 20 }, (_, index) => first.start(index % 2 === 0 ? "writer" : "reader", "go")),
  );
  for (const [index, run] of runs.entries()) {
    const name = index % 2 === 0 ? "writer" : "reader";
    expect(await run.result({ timeoutMs: 15_000 })).toMatchObject({ output: `${name} is done` });
    const types: string[] = [];
    for await (const event of run.events({ signal: AbortSignal.timeout(15_000) })) types.push(event.type);
    expect(types).not.toContain("step_held");
  }
});
