import { Worker } from "node:worker_threads";
import type { Attributes } from "@opentelemetry/api";
import { toError } from "../core/errors.ts";
import type { RunTrace } from "../core/run.ts";
import type { Logger } from "../ports.ts";
import type { SpanOrigin } from "./direct-spans.ts";
import type { Env, Way } from "./otlp.ts";
import type { SpanPlan } from "./spans.ts";
import type { StepFacts } from "./step-facts.ts";

/** A span for the thread to send: of a step, of which it makes the span itself, or one that is planned. */
export type SpanItem = { type: "step"; step: StepFacts } | { type: "plan"; plan: SpanPlan; trace: RunTrace };

export type ToThread = { type: "items"; items: SpanItem[] } | { type: "stop" };
export type FromThread =
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

/** Hands finished spans of sampled runs to a thread that sends them. */
export type SpanChannel = {
  /** False if the thread is not there (any more): the span is the caller's to emit. What is too much is dropped. */
  put(item: SpanItem): boolean;
  /** Sends what is left; resolves when it was sent or given up. */
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

/**
 * A thread that is started for the first span. It keeps no process alive but while it shuts down.
 *
 * @param origin of our tracer's spans.
 */
export function openSpanChannel(origin: SpanOrigin, way: Way, logger: Logger): SpanChannel {
  let thread: SpanThread | undefined;
  const complain = once(() => logger.warn({}, "spans are made faster than they are sent; some are dropped"));
  let items: SpanItem[] = [];
  let timer: NodeJS.Timeout | undefined;

  function send(): void {
    clearTimeout(timer);
    timer = undefined;
    if (items.length > 0) thread?.send(items);
    items = [];
  }

  return {
    put(item) {
      thread ??= startThread(origin, way, logger);
      if (!thread.isOpen()) return false;
      if (thread.underWay() >= mostUnderWay) {
        complain();
        return true;
      }
      items.push(item);
      if (items.length >= itemsAtOnce) send();
      else timer ??= setTimeout(send, longestWaitMs).unref();
      return true;
    },
    async shutdown() {
      if (thread?.isOpen()) send();
      await thread?.stop();
    },
    giveUp: () => thread?.end(),
  };
}

type SpanThread = {
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
  let open = true;
  let underWay = 0;
  const { promise: stopped, resolve: stop } = Promise.withResolvers<void>();
  const tell = (message: ToThread): void => thread.postMessage(message);
  thread.on("message", (message: FromThread) => {
    if (message.type === "took") underWay -= message.count;
    else if (message.type === "log") logger.warn(message.fields, message.message);
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
      }
      await stopped;
      await thread.terminate();
    },
    end() {
      open = false;
      void thread.terminate();
    },
  };
}

function once(act: () => void): () => void {
  let acted = false;
  return () => {
    if (!acted) act();
    acted = true;
  };
}
