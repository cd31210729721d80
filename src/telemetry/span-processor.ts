import { createRequire } from "node:module";
import type { SpanProcessor } from "@opentelemetry/sdk-trace";
import type { Logger } from "../ports.ts";
import { createSpanExporter } from "./exporter.ts";
import type { Env, Way } from "./otlp.ts";

const require = createRequire(import.meta.url);

/** The stock batch processor over the stock exporter, as `OTEL_BSP_*` say; `giveUp` as of the exporter. */
export function createSpanProcessor(
  env: Env,
  { endpoint, protocol }: Way,
  logger: Logger,
): { processor: SpanProcessor; giveUp(): void } {
  const { BatchSpanProcessor } = require("@opentelemetry/sdk-trace") as typeof import("@opentelemetry/sdk-trace");
  const exporter = createSpanExporter({ protocol, where: endpoint, logger });
  const processor = new BatchSpanProcessor({
    exporter,
    ...countFrom("maxQueueSize", env.OTEL_BSP_MAX_QUEUE_SIZE),
    ...countFrom("maxExportBatchSize", env.OTEL_BSP_MAX_EXPORT_BATCH_SIZE),
    ...countFrom("scheduledDelayMillis", env.OTEL_BSP_SCHEDULE_DELAY),
    ...countFrom("exportTimeoutMillis", env.OTEL_BSP_EXPORT_TIMEOUT),
  });
  return { processor, giveUp: exporter.giveUp };
}

/** A setting as a variable of the environment has it; what is no count leaves the SDK's default. */
function countFrom(name: string, text: string | undefined): Record<string, number> {
  const count = Number(text?.trim() || Number.NaN);
  return Number.isInteger(count) && count >= 0 ? { [name]: count } : {};
}
