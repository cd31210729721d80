// Catches: a Redis whose data was copied without the times at which keys expire, where no step of a lost worker comes
// back; one that comes back late because a worker of another make keeps others from looking for it.
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Delivery } from "../../src/ports.ts";
import { type Bench, makeBench } from "./setup.ts";

const step = { kind: "model", runId: "run-a", owedAt: 1, index: 1 } as const;
let bench: Bench;
beforeEach(async () => {
  bench = await makeBench();
});
afterEach(() => bench.close());

const another = async (): Promise<Delivery> => {
  const again = Promise.withResolvers<Delivery>();
  const heir = bench.makeWorker({
    async process(delivery) {
      again.resolve(delivery);
      return { type: "done" };
    },
  });
  await heir.start();
  return again.promise;
};

/** A step that its worker took, and was lost with. */
async function loseWorker(): Promise<void> {
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
}

test("a lost worker's step comes back though its lock and the look for such steps have no end", async () => {
  await loseWorker();
  await bench.redis.set(bench.key("model", "1-1-run-a", "lock"), "somebody's");
  await bench.redis.set(bench.key("model", "stalled-check"), "1");
  expect(await another()).toMatchObject({ step: { runId: "run-a" }, lostWorkers: 1 });
}, 30_000);

test("a lost worker's step comes back though a worker of another make looked for such steps, which it does far less often", async () => {
  await loseWorker();
  await bench.redis.set(bench.key("model", "stalled-check"), "1", "PX", 600_000);
  expect(await another()).toMatchObject({ step: { runId: "run-a" }, lostWorkers: 1 });
}, 30_000);
