import { describe } from "vitest";
import { toJobId } from "../../src/bullmq/step-job.ts";
import { stepQueueContract } from "../contract/step-queue.contract.ts";
import { makeBench, systemClock } from "./setup.ts";

describe("BullMQ step queue keeps the contract", () => {
  stepQueueContract(async () => {
    const bench = await makeBench();
    return {
      queue: bench.queue,
      clock: systemClock,
      async consume(process, enough) {
        const reached = Promise.withResolvers<void>();
        const worker = bench.makeWorker({
          async process(delivery) {
            const outcome = await process(delivery).finally(() => {
              if (enough()) reached.resolve();
            });
            return outcome;
          },
        });
        await worker.start();
        await reached.promise;
        await worker.stop();
      },
      async lose(step) {
        const id = toJobId(step);
        await bench.redis.del(bench.key("model", id));
        await bench.redis.zrem(bench.key("model", "prioritized"), id);
      },
      close: bench.close,
    };
  });
});
