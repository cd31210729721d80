import OpenAI, { type ClientOptions } from "openai";
import type { ResponseStreamEvent } from "openai/resources/responses/responses";
import type { Agent } from "../../../src/define-agent.ts";
import { defineAgent } from "../../../src/define-agent.ts";
import type { HttpDeps } from "../../../src/http/types.ts";
import { toKnownAgent } from "../../../src/presence.ts";
import { createMemoryPresence, createMemoryResponseStore } from "../../../src/testing/memory-operators.ts";
import { type ScriptedReply, scriptedModel } from "../../../src/testing/scripted-model.ts";
import type { Tool } from "../../../src/tools/define-tool.ts";
import { createTestHttp, type TestHttp, type TestHttpOptions } from "../../support/http.ts";

export type V1 = { http: TestHttp; client: OpenAI; clientOf(options: ClientOptions): OpenAI };

type V1Options = TestHttpOptions & {
  /** Of what is kept of responses; default: the process's. */
  clock?: { now(): number };
};

/** All of HTTP in memory, and the official client in front of it, which sends nothing again unless asked to. */
export async function createV1Test({ agents, clock = Date, ...options }: V1Options): Promise<V1> {
  const presence = createMemoryPresence({ clock });
  const known = agents.map(({ code }) => toKnownAgent(code, undefined, Date.now()));
  await presence.tell(worker(agents), known, [], 3_600_000);
  const deps: Partial<HttpDeps> = { presence, responses: createMemoryResponseStore({ clock }), ...options.deps };
  const http = await createTestHttp({ ...options, agents, deps });
  const clientOf = (client: ClientOptions): OpenAI =>
    new OpenAI({
      apiKey: "none",
      baseURL: "http://localhost/v1",
      maxRetries: 0,
      // A key that the server does not know would be refused where there are none.
      fetch: (url, init) => http.fetch(new Request(url, withoutNone(init))),
      ...client,
    });
  return { http, client: clientOf({}), clientOf };
}

function withoutNone(init: RequestInit | undefined): RequestInit {
  const headers = new Headers(init?.headers);
  if (headers.get("authorization") === "Bearer none") headers.delete("authorization");
  return { ...init, headers };
}

function worker(agents: readonly Agent[]) {
  const at = Date.now();
  return {
    ...{ id: "w", host: "h", pid: 1, version: "0", startedAt: at, seenAt: at, queues: [], concurrency: 1, running: 0 },
    agents: agents.map(({ name }) => name),
  };
}

/** An agent that says these turns. */
export function makeAgent(
  script: readonly ScriptedReply[],
  more: { name?: string; tools?: Tool[]; maxTurns?: number } = {},
): Agent {
  const { name = "helper", tools = [], maxTurns } = more;
  return defineAgent({
    name,
    instructions: "Help.",
    model: scriptedModel(script),
    tools,
    ...(maxTurns === undefined ? {} : { limits: { maxTurns } }),
  });
}

/** Holds a turn until the test lets it go on. */
export function gate(): { before(step: ScriptedReply): ScriptedReply; reached: Promise<void>; open(): void } {
  const reached = Promise.withResolvers<void>();
  const opened = Promise.withResolvers<void>();
  return {
    before: (step) => async (request) => {
      reached.resolve();
      await Promise.race([opened.promise, new Promise((resolve) => request.signal.addEventListener("abort", resolve))]);
      return typeof step === "function" ? step(request) : step;
    },
    reached: reached.promise,
    open: opened.resolve,
  };
}

/** All pieces of text in a stream's events, joined. */
export function textOfAll(events: readonly ResponseStreamEvent[]): string {
  return events.map((event) => (event.type === "response.output_text.delta" ? event.delta : "")).join("");
}
