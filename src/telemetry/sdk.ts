import { randomBytes } from "node:crypto";
import { createRequire } from "node:module";
import { hostname } from "node:os";
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
import type { Logger, Telemetry } from "../ports.ts";
import { createExporter, type Protocol, protocols, type WatchedExporter } from "./exporter.ts";
import { createNoTelemetry } from "./no-telemetry.ts";
import { createReservedIds } from "./reserved-ids.ts";
import { createSampler } from "./sampler.ts";
import { createTelemetry, createTelemetryOnForeignProvider } from "./tracing.ts";

export type StartedTelemetry = {
  telemetry: Telemetry;
  /** Sends what is left, for at most 2 s whatever the collector does. Never rejects. */
  shutdown(): Promise<void>;
};

/** Upper bound of `shutdown`, in ms. */
const flushMs = 2_000;

const require = createRequire(import.meta.url);

/** The SDK is registered for the whole process, so several Drovers in it share one. */
let shared: (StartedSdk & { users: number }) | undefined;

type StartedSdk = { telemetry(logger: Logger, redactor: Redactor | undefined): Telemetry; stop(): Promise<void> };

/**
 * Starts tracing as the standard variables say.
 *
 * - The application registered a tracer provider before: spans go there (`createTelemetryOnForeignProvider`).
 * - `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is set: the OpenTelemetry SDK is loaded and
 *   registered, and spans are sent over OTLP/HTTP, in batches that honour `OTEL_BSP_*`.
 * - Neither, or `OTEL_SDK_DISABLED=true`, or `OTEL_TRACES_EXPORTER=none`: nothing is loaded, sent or logged.
 *
 * Synchronous, so that a run can be started at once; loading the SDK takes about 0.2 s and happens only if it is used.
 *
 * @param env `process.env`, or the `OTEL_*` part of it; the SDK itself reads `process.env`.
 * @param redactor what every text of a span goes through; default: one that knows the usual kinds of secrets.
 */
export function startTelemetry(
  env: Record<string, string | undefined>,
  logger: Logger,
  redactor?: Redactor,
): StartedTelemetry {
  const off: StartedTelemetry = { telemetry: createNoTelemetry(), shutdown: async () => {} };
  if (isTrue(env.OTEL_SDK_DISABLED)) return off;
  const captureContent = isTrue(env.OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT);
  if (!shared && isProviderRegistered()) {
    const tracer = trace.getTracer("drover");
    return { ...off, telemetry: createTelemetryOnForeignProvider({ tracer, captureContent, logger, redactor }) };
  }
  const endpoint = env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT || env.OTEL_EXPORTER_OTLP_ENDPOINT;
  if (!endpoint) return off;
  const problem = problemOf(env, endpoint);
  if (problem !== undefined) {
    if (problem !== "") logger.warn({}, problem);
    return off;
  }
  try {
    shared ??= { ...startSdk(env, new URL(endpoint), captureContent, logger), users: 0 };
  } catch (thrown) {
    logger.warn({ error: toError(thrown).message }, "the OpenTelemetry SDK could not be started; tracing is off");
    return off;
  }
  shared.users += 1;
  return { telemetry: shared.telemetry(logger, redactor), shutdown: release(shared) };
}

/** Why there is no exporting with these settings, in one sentence; empty if that is what was asked for. */
function problemOf(env: Record<string, string | undefined>, endpoint: string): string | undefined {
  const exporter = env.OTEL_TRACES_EXPORTER?.trim() || "otlp";
  if (exporter === "none") return "";
  if (exporter !== "otlp")
    return `OTEL_TRACES_EXPORTER=${exporter} is not supported (otlp and none are); tracing is off`;
  const protocol = protocolOf(env);
  if (!isSupported(protocol)) {
    return `OTLP protocol ${protocol} is not supported (${protocols.join(" and ")} are, usually on port 4318); tracing is off`;
  }
  const parsed = URL.parse(endpoint);
  if (parsed?.protocol === "http:" || parsed?.protocol === "https:") return undefined;
  return "the OTLP endpoint must be an http:// or https:// URL; tracing is off";
}

const protocolOf = (env: Record<string, string | undefined>): string =>
  (env.OTEL_EXPORTER_OTLP_TRACES_PROTOCOL || env.OTEL_EXPORTER_OTLP_PROTOCOL || "http/protobuf").trim();

const isSupported = (protocol: string): protocol is Protocol => protocols.some((known) => known === protocol);

const isTrue = (value: string | undefined): boolean => value?.trim().toLowerCase() === "true";

/** Whether a tracer provider was registered in this process by somebody else, with this copy of the API or another. */
function isProviderRegistered(): boolean {
  const provider = trace.getTracerProvider();
  return !(provider instanceof ProxyTracerProvider) || provider.getDelegateTracer("drover") !== undefined;
}

function startSdk(
  env: Record<string, string | undefined>,
  endpoint: URL,
  captureContent: boolean,
  logger: Logger,
): StartedSdk {
  const { NodeSDK } = require("@opentelemetry/sdk-node") as typeof import("@opentelemetry/sdk-node");
  const sdkTrace = require("@opentelemetry/sdk-trace") as typeof import("@opentelemetry/sdk-trace");
  const { defaultResource, envDetector, resourceFromAttributes } =
    require("@opentelemetry/resources") as typeof import("@opentelemetry/resources");
  const ids = createReservedIds();
  const exporter = createExporter(protocolOf(env) as Protocol, endpoint, logger);
  const had = { context: hasContextManager(), propagation: propagation.fields().length > 0 };
  const sdk = new NodeSDK({
    resource: defaultResource().merge(resourceFromAttributes(identity())),
    // Names and attributes of the environment win over ours. Not the process detector: command lines can hold content.
    ...(env.OTEL_NODE_RESOURCE_DETECTORS ? {} : { resourceDetectors: [envDetector] }),
    traceExporter: exporter,
    idGenerator: ids,
    sampler: createSampler(sdkTrace, env),
    // Traces only: else the SDK would export metrics and logs to the same endpoint.
    metricReaders: [],
    logRecordProcessors: [],
  });
  const early = trace.getTracerProvider();
  sdk.start();
  reachEarlyTracers(early);
  return {
    telemetry: (log, redactor) =>
      createTelemetry({ tracer: trace.getTracer("drover"), ids, captureContent, logger: log, redactor }),
    async stop() {
      await flush(sdk, exporter);
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

/** Which worker a span came from. */
function identity(): Record<string, string> {
  return {
    "service.name": "drover",
    "service.instance.id": `${hostname()}-${process.pid}-${randomBytes(4).toString("hex")}`,
  };
}

async function flush(sdk: { shutdown(): Promise<void> }, exporter: WatchedExporter): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, flushMs);
  try {
    // A failed export was logged when it happened.
    await Promise.race([sdk.shutdown().catch(() => {}), late]);
  } finally {
    clearTimeout(timer);
    exporter.giveUp();
  }
}

function release(held: NonNullable<typeof shared>): () => Promise<void> {
  let stopped: Promise<void> | undefined;
  return () => {
    stopped ??= (async () => {
      held.users -= 1;
      if (held.users > 0) return;
      if (shared === held) shared = undefined;
      await held.stop();
    })();
    return stopped;
  };
}

function hasContextManager(): boolean {
  const probe = createContextKey("drover probe");
  return context.with(ROOT_CONTEXT.setValue(probe, true), () => context.active().getValue(probe) === true);
}
