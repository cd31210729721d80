// Catches: a fan-out of which a part never reached its queue, taken for queued.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { toJobId } from "../../src/bullmq/step-job.ts";
import type { Step } from "../../src/core/owed.ts";
import { type Bench, makeBench } from "./setup.ts";

const steps = [1, 2, 3].map((index): Step => ({ runId: "run-a", owedAt: 4, index, kind: "tool", callId: `c${index}` }));

describe("steps that are queued together", () => {
  let bench: Bench;
  beforeEach(async () => {
    bench = await makeBench();
  });
  afterEach(() => bench.close());

  const states = (): Promise<string[]> =>
    Promise.all(steps.map((step) => bench.plainQueue("model").getJobState(toJobId(step))));

  test("are all there after Redis has forgotten its scripts", async () => {
    await bench.queue.add(steps.map((step) => ({ ...step, owedAt: 3 })));
    await bench.redis.script("FLUSH");
    await bench.queue.add(steps);
    expect(await states()).toEqual(["prioritized", "prioritized", "prioritized"]);
  });

  test("are refused aloud if one of them is", async () => {
    await bench.queue.add(steps.map((step) => ({ ...step, owedAt: 3 })));
    // The add script meets a key of the wrong type.
    await bench.redis.del(bench.key("model", "prioritized"));
    await bench.redis.set(bench.key("model", "prioritized"), "wrong");
    await expect(bench.queue.add(steps)).rejects.toThrow();
  });
});
