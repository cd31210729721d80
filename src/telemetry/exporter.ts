import { Agent } from "node:http";
import { createRequire } from "node:module";
import { toError } from "../core/errors.ts";
import type { Logger } from "../ports.ts";

const require = createRequire(import.meta.url);

type HttpModule = typeof import("@opentelemetry/exporter-trace-otlp-http");
type Exporter = InstanceType<HttpModule["OTLPTraceExporter"]>;
type Spans = Parameters<Exporter["export"]>[0];
type Report = Parameters<Exporter["export"]>[1];

/** Result codes of the SDK's exporters. */
const failed = 1;

export const protocols = ["http/protobuf", "http/json"] as const;
export type Protocol = (typeof protocols)[number];

export type WatchedExporter = {
  export(spans: Spans, report: Report): void;
  forceFlush(): Promise<void>;
  shutdown(): Promise<void>;
  /** Gives up what is still under way, so that it keeps neither a caller waiting nor the process alive. */
  giveUp(): void;
};

/**
 * The stock OTLP exporter (endpoint, headers, compression and certificates from the standard variables), watched: the
 * first failure is logged in one line, later ones are not, and it can be told to give up.
 *
 * @param where what the log line calls the collector; no credentials in it.
 */
export function createExporter(protocol: Protocol, where: URL, logger: Logger): WatchedExporter {
  // Loaded only here: it takes a tenth of a second.
  const { OTLPTraceExporter }: HttpModule =
    protocol === "http/json"
      ? require("@opentelemetry/exporter-trace-otlp-http")
      : require("@opentelemetry/exporter-trace-otlp-proto");
  const agent = new Agent({ keepAlive: true });
  let given = false;
  const inner = new OTLPTraceExporter({
    // Asked before each try: the way to stop the exporter's own retries.
    headers: async () => {
      if (given) throw new Error("the process is stopping");
      return {};
    },
    // For https the stock agent stays, since it knows the certificates.
    ...(where.protocol === "http:" ? { httpAgentOptions: () => agent } : {}),
  });
  const underWay = new Set<Report>();
  const tell = once((error: unknown) =>
    logger.warn(
      { collector: where.origin, error: describe(error) },
      "traces cannot be delivered; runs go on, spans are lost",
    ),
  );
  return {
    export(spans, report) {
      underWay.add(report);
      inner.export(spans, (result) => {
        if (result.code === failed && !given) tell(result.error);
        if (underWay.delete(report)) report(result);
      });
    },
    forceFlush: () => inner.forceFlush(),
    shutdown: () => inner.shutdown(),
    giveUp() {
      given = true;
      agent.destroy();
      for (const report of underWay) report({ code: failed, error: new Error("given up") });
      underWay.clear();
    },
  };
}

function once<T>(act: (value: T) => void): (value: T) => void {
  let acted = false;
  return (value) => {
    if (!acted) act(value);
    acted = true;
  };
}

/** The code of a network error or the status of an answer; a collector's answer body is not repeated. */
function describe(thrown: unknown): string {
  const error = toError(thrown);
  const code = "code" in error ? error.code : undefined;
  return typeof code === "string" || typeof code === "number" ? String(code) : error.message;
}
