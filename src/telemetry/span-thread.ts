// The thread that makes spans of facts and sends them: on the worker's own thread that took more time than all else that
// tracing costs.
import { createRequire } from "node:module";
import { parentPort, workerData } from "node:worker_threads";
import type { Logger } from "../ports.ts";
import { createDirectSpans } from "./direct-spans.ts";
import { createTake, type FromThread, type ThreadData, type ToThread } from "./span-channel.ts";
import { createSpanProcessor } from "./span-processor.ts";

const require = createRequire(import.meta.url);
const { resourceFromAttributes } = require("@opentelemetry/resources") as typeof import("@opentelemetry/resources");

const { attributes, instrumentationScope, endpoint, protocol } = workerData as ThreadData;
const tell = (message: FromThread): void => parentPort?.postMessage(message);
const say: Logger["warn"] = (fields, message) => tell({ type: "log", fields, message });
const logger: Logger = { debug: say, info: say, warn: say, error: say };

const { processor } = createSpanProcessor(process.env, { endpoint: new URL(endpoint), protocol }, logger);
const origin = { resource: resourceFromAttributes(attributes), instrumentationScope };
const take = createTake(createDirectSpans(processor, origin));

parentPort?.on("message", (message: ToThread) => {
  if (message.type === "items") {
    for (const item of message.items) take(item);
    tell({ type: "took", count: message.items.length });
  } else {
    // A failed export was told when it happened.
    const stopped = (): void => tell({ type: "stopped" });
    processor.shutdown().then(stopped, stopped);
  }
});
tell({ type: "ready" });
