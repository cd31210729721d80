// A worker process of the end-to-end tests. Tells on standard output, one JSON object a line, when it takes steps and
// when it has stopped; log lines go to standard error. As an ordinary program it uses the package's own front door; with
// steps redelivered, loads held or a point to die at it is put together from the same parts by hand.
import "./skewed-clock.ts"; // before whatever takes hold of the time
import { flushCompileCache } from "node:module";
import { createStepQueue } from "../../src/bullmq/step-queue.ts";
import { createStepWorker } from "../../src/bullmq/step-worker.ts";
import { createDrover } from "../../src/drover.ts";
import { createEngine } from "../../src/engine/engine.ts";
import { startSweeper } from "../../src/engine/sweep.ts";
import { createIds } from "../../src/ids.ts";
import type { Delivery, Logger, RunStore, StepOutcome } from "../../src/ports.ts";
import { connect } from "../../src/redis/connection.ts";
import { createRedisGates } from "../../src/redis/gates.ts";
import { createKeys } from "../../src/redis/keys.ts";
import { createRedisClock } from "../../src/redis/redis-clock.ts";
import { makeClient } from "../../src/redis/redis-options.ts";
import { createRedisRunStore } from "../../src/redis/run-store.ts";
import { createRedisSignals } from "../../src/redis/signals.ts";
import { createLogger } from "../../src/telemetry/logger.ts";
import { createNoTelemetry } from "../../src/telemetry/no-telemetry.ts";
import { checkValue } from "../../src/tools/parameters.ts";
import { agents } from "./e2e-agents.ts";
import { type ParsedE2eOptions, readE2eOptions } from "./e2e-options.ts";
import { visitGate } from "./gate.ts";
import { withKillPoint } from "./kill-points.ts";

const options = readE2eOptions();
const logger = createLogger({ level: options.logLevel });

function tell(report: Record<string, unknown>): void {
  process.stdout.write(`${JSON.stringify(report)}\n`);
}

/** The front door. */
async function startPlain(): Promise<() => Promise<void>> {
  const { redisUrl: redis, prefix, shards, concurrency, graceMs, lockMs, isolateAfter, limits, durability } = options;
  const drover = createDrover({ redis, prefix, shards, agents, logger, limits, durability });
  await drover.work({ concurrency, graceMs, lockMs, isolateAfter });
  return () => drover.close();
}

/** Whatever ended is delivered once more at once: it must not change a thing. */
function redelivered(runStep: (delivery: Delivery) => Promise<StepOutcome>): typeof runStep {
  return async (delivery) => {
    const outcome = await runStep(delivery);
    if (outcome.type !== "done") return outcome;
    return runStep({ ...delivery, deliveries: delivery.deliveries + 1 });
  };
}

/** The run is read, and only then, after a while, gone on with. */
function withHeldLoads(store: RunStore, { gateUrl }: ParsedE2eOptions): RunStore {
  return {
    ...store,
    async loadWithMessages(runId) {
      const loaded = await store.loadWithMessages(runId);
      await visitGate(gateUrl, { what: "loaded", runId });
      return loaded;
    },
  };
}

/** What is cut out of a result is kept, and only then, after a while, the result is committed. */
function withHeldOutputs(store: RunStore, { gateUrl }: ParsedE2eOptions): RunStore {
  return {
    ...store,
    async putOutput(runId, ref, text) {
      await store.putOutput(runId, ref, text);
      await visitGate(gateUrl, { what: "kept", runId });
    },
  };
}

/** The same parts, put together by hand. */
async function startParts(log: Logger): Promise<() => Promise<void>> {
  const { redisUrl, prefix, concurrency = 100, graceMs } = options;
  const connection = connect(redisUrl, { role: "worker", logger: log });
  const clock = createRedisClock({ connection, logger: log });
  const keys = createKeys(prefix);
  const plain = createRedisRunStore({ connection, keys, logger: log });
  const held = options.holdLoads ? withHeldLoads(plain, options) : plain;
  const ports = {
    store: options.holdOutputs ? withHeldOutputs(held, options) : held,
    queue: createStepQueue({ connection, prefix, clock, logger: log }),
  };
  const { store, queue } = options.killAt ? withKillPoint(ports, options.killAt) : ports;
  const signals = createRedisSignals({ target: redisUrl, connection, keys, logger: log });
  const engine = createEngine({
    ...{ store, queue, signals, clock, logger: log, ids: createIds(), telemetry: createNoTelemetry() },
    gates: createRedisGates({ connection, keys }),
    agents: { get: (name) => agents.find((agent) => agent.name === name)?.code },
    payloadLimitBytes: 1_048_576,
    checkValue,
  });
  await connection.ready();
  await clock.ready();
  const locks = makeClient(redisUrl, "worker");
  const worker = createStepWorker({
    client: connection.client,
    locks,
    connect: () => makeClient(redisUrl, "worker"),
    queues: ["runs", "model", "tools"],
    process: options.redeliver ? redelivered(engine.runStep) : engine.runStep,
    processStart: ({ start }) => engine.takeStart(start),
    ...{ prefix, concurrency, clock, logger: log, graceMs },
  });
  await worker.start();
  const sweeper = startSweeper({ store, queue, clock, logger: log });
  return async () => {
    await worker.stop();
    await sweeper.stop();
    engine.close();
    clock.stop();
    await Promise.allSettled([signals.close(), ports.queue.close()]);
    await connection.close();
    locks.disconnect();
  };
}

const { redeliver, holdLoads, holdOutputs, killAt } = options;
const stop = await (redeliver || holdLoads || holdOutputs || killAt ? startParts(logger) : startPlain());
process.once("SIGTERM", () => {
  void stop().then(() => tell({ type: "stopped" }));
});
tell({ type: "ready", pid: process.pid });
// What was compiled is kept at a process's own end, which this one mostly does not live to see.
flushCompileCache();
