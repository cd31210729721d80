import { Worker } from "node:worker_threads";
import type { Attributes } from "@opentelemetry/api";
import type { SpanProcessor } from "@opentelemetry/sdk-trace";
import { toError } from "../core/errors.ts";
import type { RunTrace } from "../core/run.ts";
import type { Logger } from "../ports.ts";
import { createDirectSpans, type PutSpan, type SpanOrigin } from "./direct-spans.ts";
import { once } from "./once.ts";
import type { Env, Way } from "./otlp.ts";
import { planStep, type SpanPlan } from "./spans.ts";
import type { StepFacts } from "./step-facts.ts";

/** A span for the thread to send: of a step, of which it makes the span itself, or one that is planned. */
export type SpanItem = { type: "step"; step: StepFacts } | { type: "plan"; plan: SpanPlan; trace: RunTrace };

export type ToThread = { type: "items"; items: SpanItem[] } | { type: "stop" };
export type FromThread =
  | { type: "ready" }
  | { type: "took"; count: number }
  | { type: "log"; fields: Record<string, unknown>; message: string }
  | { type: "stopped" };
export type ThreadData = {
  /** Of the process: the thread is no process of its own to a collector. */
  attributes: Attributes;
  instrumentationScope: SpanOrigin["instrumentationScope"];
  endpoint: string;
  protocol: Way["protocol"];
};

/** Finished spans of sampled runs on their way out. */
export type SpanChannel = {
  /** What comes faster than it can be sent is dropped. */
  put(item: SpanItem): void;
  /** Lets the thread send what it has; resolves when it did, or was ended. What was sent without it is the processor's. */
  shutdown(): Promise<void>;
  giveUp(): void;
};

/** Limits that a tracer puts on attributes. */
const limits = [
  "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
  "OTEL_ATTRIBUTE_COUNT_LIMIT",
  "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
  "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
];

/** Fewer spans than this are sent by the process itself: a command line, a producer. */
const worthThread = 256;
const itemsAtOnce = 128;
const longestWaitMs = 50;
/** Handed over and not yet taken. A thread that far behind gets no processor time; memory must not pay for it. */
const mostUnderWay = 16_384;

/** Whether spans can do without a tracer: the environment limits no attributes, and what is said of the process is known. */
export function canSkipTracer(env: Env, like: object): like is SpanOrigin {
  if (limits.some((name) => env[name])) return false;
  if (!("resource" in like && "instrumentationScope" in like)) return false;
  return (like as SpanOrigin).resource.asyncAttributesPending !== true;
}

/** Makes the span of an item and hands it to a processor. */
export function createTake(put: PutSpan): (item: SpanItem) => void {
  return (item) => {
    if (item.type === "plan") put(item.plan, item.trace);
    else put(planStep(item.step), item.step.run.trace);
  };
}

/**
 * Spans are sent by the processor in this thread, until there are so many that a thread of their own is worth its start;
 * and again if that one fails. It keeps no process alive but while it shuts down.
 *
 * @param origin of our tracer's spans.
 */
export function openSpanChannel(origin: SpanOrigin, processor: SpanProcessor, way: Way, logger: Logger): SpanChannel {
  const take = createTake(createDirectSpans(processor, origin));
  const complain = once(() => logger.warn({}, "spans are made faster than they are sent; some are dropped"));
  let taken = 0;
  let thread: SpanThread | undefined;
  let items: SpanItem[] = [];
  let timer: NodeJS.Timeout | undefined;

  function send(): void {
    clearTimeout(timer);
    timer = undefined;
    if (items.length > 0) thread?.send(items);
    items = [];
  }

  function takeHere(item: SpanItem): void {
    taken += 1;
    if (taken === worthThread) thread = startThread(origin, way, logger);
    take(item);
  }

  return {
    put(item) {
      if (!thread?.isOpen()) return takeHere(item);
      if (thread.underWay() >= mostUnderWay) return complain();
      items.push(item);
      if (items.length >= itemsAtOnce) send();
      else timer ??= setTimeout(send, longestWaitMs).unref();
    },
    async shutdown() {
      if (thread?.isOpen()) send();
      await thread?.stop();
    },
    giveUp: () => thread?.end(),
  };
}

type SpanThread = {
  /** It has started, and was not stopped. */
  isOpen(): boolean;
  /** Items handed over and not yet taken. */
  underWay(): number;
  send(items: SpanItem[]): void;
  /** Lets it send what it has; resolves when it has, or was ended. */
  stop(): Promise<void>;
  end(): void;
};

function startThread(origin: SpanOrigin, { endpoint, protocol }: Way, logger: Logger): SpanThread {
  const workerData: ThreadData = {
    attributes: { ...origin.resource.attributes },
    instrumentationScope: { ...origin.instrumentationScope },
    endpoint: endpoint.href,
    protocol,
  };
  const file = new URL(`./span-thread${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`, import.meta.url);
  const thread = new Worker(file, { workerData, name: "drover spans" });
  thread.unref();
  let open = false;
  let underWay = 0;
  const { promise: stopped, resolve: stop } = Promise.withResolvers<void>();
  const tell = (message: ToThread): void => thread.postMessage(message);
  thread.on("message", (message: FromThread) => {
    if (message.type === "took") underWay -= message.count;
    else if (message.type === "log") logger.warn(message.fields, message.message);
    else if (message.type === "ready") open = true;
    else stop();
  });
  thread.on("error", (thrown: unknown) => {
    open = false;
    const fields = { error: toError(thrown).message };
    logger.warn(fields, "the thread that sends spans failed; from now on they are sent without it");
  });
  thread.on("exit", () => {
    open = false;
    stop();
  });
  return {
    isOpen: () => open,
    underWay: () => underWay,
    send(items) {
      underWay += items.length;
      tell({ type: "items", items });
    },
    async stop() {
      if (open) {
        open = false;
        thread.ref();
        tell({ type: "stop" });
        await stopped;
      }
      await thread.terminate();
    },
    end() {
      open = false;
      void thread.terminate();
    },
  };
}
