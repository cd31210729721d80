// One run is one trace. Drover exports over OTLP as soon as the standard variable names an endpoint; here that is a
// collector of a few lines, so that the tree can be printed offline. For Jaeger: docker compose up.
import { deepEqual, equal } from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { calculator, createDrover, defineAgent } from "../src/index.ts";
import { scriptedModel } from "../src/testing/index.ts";
import { findRedis } from "./support/redis.ts";

type Times = { startTimeUnixNano: string; endTimeUnixNano: string };
type Span = { name: string; traceId: string; spanId: string; parentSpanId?: string } & Times;
type Body = { resourceSpans: { scopeSpans: { spans: Span[] }[] }[] };

const spans: Span[] = [];
async function collect(request: IncomingMessage, response: ServerResponse): Promise<void> {
  // Metrics come to the same endpoint, under another path.
  const isTraces = request.url === "/v1/traces";
  const body = isTraces ? ((await json(request)) as Body) : { resourceSpans: [] };
  spans.push(...body.resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans)));
  response.writeHead(200, { "content-type": "application/json" }).end("{}");
}
const collector = createServer((request, response) => void collect(request, response)).listen(0, "127.0.0.1");
await once(collector, "listening");

process.env.OTEL_EXPORTER_OTLP_ENDPOINT = `http://127.0.0.1:${(collector.address() as AddressInfo).port}`;
process.env.OTEL_EXPORTER_OTLP_PROTOCOL = "http/json";

const clerk = defineAgent({
  name: "clerk",
  instructions: "You calculate.",
  model: scriptedModel([
    {
      toolCalls: [
        { name: "calculator", arguments: { expression: "6 * 7" } },
        { name: "calculator", arguments: { expression: "2 ^ 10" } },
      ],
    },
    "42 and 1024.",
  ]),
  tools: [calculator()],
});
const drover = createDrover({ redis: await findRedis(), agents: [clerk] });
await drover.work();
const run = await drover.start(clerk, "6 * 7 and 2 ^ 10?");
await run.result({ timeoutMs: 30_000 });
const { traceId } = await run.status();
await drover.close(); // exports what is left
collector.close();

const tree = spans.filter((span) => span.traceId === traceId);
const ids = new Set(tree.map((span) => span.spanId));
const byStart = (a: Span, b: Span): number => Number(BigInt(a.startTimeUnixNano) - BigInt(b.startTimeUnixNano));

function print(parent: Span, indent: string): void {
  const ms = Number(BigInt(parent.endTimeUnixNano) - BigInt(parent.startTimeUnixNano)) / 1e6;
  console.log(`${indent}${parent.name}`.padEnd(40), `${ms.toFixed(1).padStart(6)} ms`);
  const children = tree.filter((span) => span.parentSpanId === parent.spanId).sort(byStart);
  for (const child of children) print(child, `${indent}  `);
}
const roots = tree.filter((span) => !span.parentSpanId || !ids.has(span.parentSpanId));
console.log(`trace ${traceId}`);
for (const root of roots) print(root, "  ");

equal(ids.size, tree.length); // no span twice
deepEqual(
  roots.map((span) => span.name),
  ["invoke_agent clerk"],
);
const steps = tree.filter((span) => span.parentSpanId === roots[0]?.spanId).map((span) => span.name);
equal(steps.filter((name) => name === "chat scripted").length, 2);
equal(steps.filter((name) => name === "execute_tool calculator").length, 2);
