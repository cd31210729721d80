// Catches: a Redis whose data was copied without the times at which keys expire, where no step of a lost worker comes back.
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Delivery } from "../../src/ports.ts";
import { type Bench, makeBench } from "./setup.ts";

const step = { kind: "model", runId: "run-a", owedAt: 1, index: 1 } as const;
let bench: Bench;
beforeEach(async () => {
  bench = await makeBench();
});
afterEach(() => bench.close());

test("a lost worker's step comes back though its lock and the look for such steps have no end", async () => {
  const taken = Promise.withResolvers<void>();
  const lost = bench.makeWorker({
    process() {
      taken.resolve();
      return new Promise(() => {});
    },
  });
  await bench.queue.add([step]);
  await lost.start();
  await taken.promise;
  await bench.cutOff(lost);
  await bench.redis.del(bench.key("model", "stray-check"));
  await bench.redis.set(bench.key("model", "1-1-run-a", "lock"), "somebody's");
  await bench.redis.set(bench.key("model", "stalled-check"), "1");
  const again = Promise.withResolvers<Delivery>();
  const heir = bench.makeWorker({
    async process(delivery) {
      again.resolve(delivery);
      return { type: "done" };
    },
  });
  await heir.start();
  expect(await again.promise).toMatchObject({ step: { runId: "run-a" }, lostWorkers: 1 });
}, 30_000);
