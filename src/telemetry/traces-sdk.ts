import { createRequire } from "node:module";
import {
  context,
  createContextKey,
  logs,
  ProxyTracerProvider,
  propagation,
  ROOT_CONTEXT,
  type TracerProvider,
  trace,
} from "@opentelemetry/api";
import { toError } from "../core/errors.ts";
import type { Redactor } from "../core/redact.ts";
import type { Logger } from "../ports.ts";
import type { Traces } from "./combine.ts";
import { createShared, type Env, flush, isTrue, ownResource, readExporters, readOtlp, type Way } from "./otlp.ts";
import { createReservedIds } from "./reserved-ids.ts";
import { createSampler } from "./sampler.ts";
import { canSkipTracer, openSpanChannel } from "./span-channel.ts";
import { createSpanProcessor } from "./span-processor.ts";
import { createTelemetry, createTelemetryOnForeignProvider } from "./tracing.ts";

const require = createRequire(import.meta.url);

type StartedSdk = { traces(logger: Logger, redactor: Redactor | undefined): Traces; stop(): Promise<void> };

/** The SDK is registered for the whole process, so several Drovers in it share one. */
const shared = createShared<StartedSdk>();

/** Traces as the standard variables say; undefined: off, and nothing is loaded. */
export function startTraces(
  env: Env,
  logger: Logger,
  redactor?: Redactor,
): { traces: Traces; stop(): Promise<void> } | undefined {
  const captureContent = isTrue(env.OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT);
  if (!shared.current() && isProviderRegistered()) {
    const tracer = trace.getTracer("drover");
    const traces = createTelemetryOnForeignProvider({ tracer, captureContent, logger, redactor });
    return { traces, stop: async () => {} };
  }
  const otlp = readOtlp(env, "TRACES", readExporters(env, "TRACES"));
  if (!otlp) return undefined;
  if ("problem" in otlp) {
    if (otlp.problem !== "") logger.warn({}, otlp.problem);
    return undefined;
  }
  try {
    const { value, release } = shared.use(() => startSdk(env, otlp, captureContent, logger));
    return { traces: value.traces(logger, redactor), stop: release };
  } catch (thrown) {
    logger.warn({ error: toError(thrown).message }, "the OpenTelemetry SDK could not be started; tracing is off");
    return undefined;
  }
}

/** Whether a tracer provider was registered in this process by somebody else, with this copy of the API or another. */
function isProviderRegistered(): boolean {
  const provider = trace.getTracerProvider();
  return !(provider instanceof ProxyTracerProvider) || provider.getDelegateTracer("drover") !== undefined;
}

function startSdk(env: Env, way: Way, captureContent: boolean, logger: Logger): StartedSdk {
  const { NodeSDK } = require("@opentelemetry/sdk-node") as typeof import("@opentelemetry/sdk-node");
  const sdkTrace = require("@opentelemetry/sdk-trace") as typeof import("@opentelemetry/sdk-trace");
  const { envDetector } = require("@opentelemetry/resources") as typeof import("@opentelemetry/resources");
  const ids = createReservedIds();
  const { processor, giveUp } = createSpanProcessor(env, way, logger);
  const had = { context: hasContextManager(), propagation: propagation.fields().length > 0 };
  const sdk = new NodeSDK({
    resource: ownResource(),
    // Not the process detector: command lines can hold content.
    ...(env.OTEL_NODE_RESOURCE_DETECTORS ? {} : { resourceDetectors: [envDetector] }),
    spanProcessors: [processor],
    idGenerator: ids,
    sampler: createSampler(sdkTrace, env),
    // Traces only: metrics have their own start, and logs go to standard error.
    metricReaders: [],
    logRecordProcessors: [],
  });
  const early = trace.getTracerProvider();
  sdk.start();
  reachEarlyTracers(early);
  const tracer = trace.getTracer("drover");
  // Never ended, so never exported.
  const probe = tracer.startSpan("probe");
  const channel = canSkipTracer(env, probe) ? openSpanChannel(probe, processor, way, logger) : undefined;
  return {
    traces: (log, redactor) => createTelemetry({ tracer, ids, channel, captureContent, logger: log, redactor }),
    async stop() {
      await flush([sdk, channel], () => {
        giveUp();
        channel?.giveUp();
      });
      // Gives the process's slots back, so that tracing can be started again in it.
      trace.disable();
      logs.disable();
      if (!had.context) context.disable();
      if (!had.propagation) propagation.disable();
    },
  };
}

/**
 * Modules take their tracer when they are loaded, so before this. The SDK, being CommonJS, registers itself with a copy
 * of the API of its own, which knows nothing of tracers given out by ours: they are led to it here.
 */
function reachEarlyTracers(early: TracerProvider): void {
  const registered = trace.getTracerProvider();
  if (early instanceof ProxyTracerProvider && early !== registered) early.setDelegate(registered);
}

function hasContextManager(): boolean {
  const probe = createContextKey("drover probe");
  return context.with(ROOT_CONTEXT.setValue(probe, true), () => context.active().getValue(probe) === true);
}
