import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { z } from "zod";

type Value = string | number | boolean | Value[] | null;

/** A span as a collector sees it. `kind`: 1 internal, 3 client. `status`: 0 unset, 2 error. Times are epoch ms. */
export type ReceivedSpan = {
  traceId: string;
  spanId: string;
  parentSpanId: string | undefined;
  name: string;
  kind: number;
  startMs: number;
  endMs: number;
  attributes: Record<string, Value>;
  status: number;
  resource: Record<string, Value>;
};

/** A series of a metric at one export. `value`: of a histogram its sum. */
export type ReceivedPoint = {
  name: string;
  unit: string;
  attributes: Record<string, Value>;
  value: number;
  count: number | undefined;
};

export type OtlpReceiver = {
  /** For `OTEL_EXPORTER_OTLP_ENDPOINT`; set `OTEL_EXPORTER_OTLP_PROTOCOL=http/json` with it. */
  url: string;
  spans: ReceivedSpan[];
  /** What the last export of metrics of each process said. */
  points(): ReceivedPoint[];
  /** Bodies as they came, whatever their form. */
  bodies: Buffer[];
  /** Headers and path of each request. */
  headers: IncomingMessage["headers"][];
  paths: string[];
  /** Resolves with the spans once they satisfy `predicate`; rejects after `timeoutMs` (default 10 s) with what came. */
  waitFor(predicate: (spans: ReceivedSpan[]) => boolean, timeoutMs?: number): Promise<ReceivedSpan[]>;
  /** How the next requests are met: taken, refused with a status, or never answered. */
  behave(as: "take" | "hang" | number): void;
  close(): Promise<void>;
};

/** A collector on a free local port that takes traces over OTLP/HTTP with JSON bodies. */
export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = [];
  const points = new Map<string, ReceivedPoint[]>();
  const bodies: Buffer[] = [];
  const headers: IncomingMessage["headers"][] = [];
  const paths: string[] = [];
  const watchers = new Set<() => void>();
  let behaviour: "take" | "hang" | number = "take";
  const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await buffer(request);
    bodies.push(body);
    headers.push(request.headers);
    paths.push(request.url ?? "");
    if (behaviour === "take" && request.headers["content-type"] === "application/json") {
      if (request.url?.endsWith("/metrics")) for (const [id, of] of decodeMetrics(body)) points.set(id, of);
      else spans.push(...decode(body));
    }
    for (const look of watchers) look();
    answer(response, behaviour);
  };
  const server = createServer((request, response) => {
    // A body that is cut off or no trace is answered by closing the connection: the test sees what did not come.
    take(request, response).catch(() => response.destroy());
  });
  const port = await listen(server);
  return {
    url: `http://127.0.0.1:${port}`,
    spans,
    points: () => [...points.values()].flat(),
    bodies,
    headers,
    paths,
    waitFor(predicate, timeoutMs = 10_000) {
      const { promise, resolve, reject } = Promise.withResolvers<ReceivedSpan[]>();
      const look = (): void => {
        if (predicate(spans)) resolve(spans);
      };
      const timer = setTimeout(() => {
        reject(new Error(`spans did not come; received: ${spans.map((span) => span.name).join(", ") || "none"}`));
      }, timeoutMs);
      watchers.add(look);
      look();
      return promise.finally(() => {
        clearTimeout(timer);
        watchers.delete(look);
      });
    },
    behave(as) {
      behaviour = as;
    },
    async close() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
      });
    },
  };
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return (server.address() as AddressInfo).port;
}

function answer(response: ServerResponse, behaviour: "take" | "hang" | number): void {
  if (behaviour === "hang") return;
  const status = behaviour === "take" ? 200 : behaviour;
  response.writeHead(status, { "content-type": "application/json" }).end("{}");
}

const valueSchema = z.looseObject({});
const attributesSchema = z.array(z.object({ key: z.string(), value: valueSchema })).default([]);
const nanos = z.string().transform((text) => Number(BigInt(text) / 1_000n) / 1_000);
const bodySchema = z.object({
  resourceSpans: z.array(
    z.object({
      resource: z.object({ attributes: attributesSchema }),
      scopeSpans: z.array(
        z.object({
          spans: z.array(
            z.object({
              traceId: z.string().regex(/^[0-9a-f]{32}$/),
              spanId: z.string().regex(/^[0-9a-f]{16}$/),
              parentSpanId: z.string().optional(),
              name: z.string(),
              kind: z.number(),
              startTimeUnixNano: nanos,
              endTimeUnixNano: nanos,
              attributes: attributesSchema,
              status: z.object({ code: z.number().default(0) }).default({ code: 0 }),
            }),
          ),
        }),
      ),
    }),
  ),
});

function decode(body: Buffer): ReceivedSpan[] {
  return bodySchema.parse(JSON.parse(body.toString())).resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap((scope) =>
      scope.spans.map((span) => ({
        traceId: span.traceId,
        spanId: span.spanId,
        parentSpanId: span.parentSpanId || undefined,
        name: span.name,
        kind: span.kind,
        startMs: span.startTimeUnixNano,
        endMs: span.endTimeUnixNano,
        attributes: toRecord(span.attributes),
        status: span.status.code,
        resource: toRecord(resource.attributes),
      })),
    ),
  );
}

const pointSchema = z.object({
  attributes: attributesSchema,
  asDouble: z.number().optional(),
  asInt: z.coerce.number().optional(),
  sum: z.number().optional(),
  count: z.coerce.number().optional(),
});
const dataSchema = z.object({ dataPoints: z.array(pointSchema) }).optional();
const metricsSchema = z.object({
  resourceMetrics: z.array(
    z.object({
      resource: z.object({ attributes: attributesSchema }),
      scopeMetrics: z.array(
        z.object({
          metrics: z.array(
            z.object({ name: z.string(), unit: z.string(), sum: dataSchema, gauge: dataSchema, histogram: dataSchema }),
          ),
        }),
      ),
    }),
  ),
});

/** The points of a body, by the process that they are of. */
function decodeMetrics(body: Buffer): [id: string, ReceivedPoint[]][] {
  return metricsSchema.parse(JSON.parse(body.toString())).resourceMetrics.map(({ resource, scopeMetrics }) => [
    String(toRecord(resource.attributes)["service.instance.id"]),
    scopeMetrics.flatMap(({ metrics }) =>
      metrics.flatMap(({ name, unit, sum, gauge, histogram }) =>
        (sum ?? gauge ?? histogram ?? { dataPoints: [] }).dataPoints.map((point) => ({
          name,
          unit,
          attributes: toRecord(point.attributes),
          value: point.asDouble ?? point.asInt ?? point.sum ?? 0,
          count: point.count,
        })),
      ),
    ),
  ]);
}

function toRecord(attributes: z.infer<typeof attributesSchema>): Record<string, Value> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, toValue(value)]));
}

function toValue(value: Record<string, unknown>): Value {
  if (typeof value.stringValue === "string") return value.stringValue;
  if (typeof value.boolValue === "boolean") return value.boolValue;
  if (value.intValue !== undefined) return Number(value.intValue);
  if (value.doubleValue !== undefined) return Number(value.doubleValue);
  const array = value.arrayValue as { values?: Record<string, unknown>[] } | undefined;
  return array ? (array.values ?? []).map(toValue) : null;
}
