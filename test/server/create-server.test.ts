// Catches: a server that others can reach without a key, that keeps what a gone client watched, or ends by cutting off.
import { once } from "node:events";
import { request } from "node:http";
import { connect } from "node:net";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { defineAgent } from "../../src/define-agent.ts";
import { createDrover } from "../../src/drover.ts";
import type { HttpSettings } from "../../src/http/types.ts";
import { createKeys } from "../../src/redis/keys.ts";
import { createDroverServer, type DroverServer } from "../../src/server.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { scriptedModel } from "../../src/testing/scripted-model.ts";
import { eventually } from "../support/eventually.ts";
import { json } from "../support/http.ts";
import { cliOf, deletePrefix, startTestRedis, testPrefix } from "../support/redis.ts";

type Setup = { server: DroverServer; url: string; prefix: string };

async function setUp(
  http: Partial<HttpSettings> = {},
  redis: string = inject("redisUrl"),
  graceMs = 2_000,
): Promise<Setup> {
  const prefix = testPrefix();
  const logger = createSilentLogger();
  const server = createDroverServer({ redis, prefix, logger, http: { keyless: true, ...http }, graceMs });
  onTestFinished(async () => {
    await server.close();
    if (redis === inject("redisUrl")) await deletePrefix(redis, prefix);
  });
  const { url } = await server.listen();
  return { server, url, prefix };
}

/** A worker whose model answers when it is told to. */
async function work(
  prefix: string,
  answer: () => string | Promise<string>,
  redis: string = inject("redisUrl"),
): Promise<void> {
  const agents = [defineAgent({ name: "talker", instructions: "Talk.", model: scriptedModel([answer]) })];
  const drover = createDrover({ redis, prefix, agents, logger: createSilentLogger() });
  onTestFinished(() => drover.close());
  await drover.work();
}

const start = { agent: "talker", input: "go", runId: "r-1" };

describe("over a socket", () => {
  test("a run is started, watched and shown; a body may come in chunks", async () => {
    const { url, prefix } = await setUp();
    await work(prefix, () => "hello");
    const body = new ReadableStream({
      start(controller) {
        for (const character of JSON.stringify(start)) controller.enqueue(new TextEncoder().encode(character));
        controller.close();
      },
    });
    const created = await fetch(`${url}/runs`, { ...json({}), body, duplex: "half" } as RequestInit);
    expect(created.status).toBe(201);
    expect(await (await fetch(`${url}/runs/r-1/events`)).text()).toContain("event: run_ended");
    expect(await (await fetch(`${url}/runs/r-1`)).json()).toMatchObject({ status: "completed" });
    const agents = (await (await fetch(`${url}/agents`)).json()) as { agents: { name: string }[] };
    expect(agents.agents.map(({ name }) => name)).toEqual(["talker"]);
    expect(await (await fetch(`${url}/fleet`)).json()).toMatchObject({ counts: { completed: 1 } });
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
    expect(await (await fetch(`${url}/metrics`)).text()).toContain("# TYPE");
    expect((await fetch(`${url}/ui/queues`)).status).toBe(200);
  });

  test("a body in chunks that does not end is cut off at the limit", async () => {
    const { url } = await setUp({ bodyLimitBytes: 10_000 });
    const endless = new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(1_000)) });
    const response = await fetch(`${url}/runs`, { ...json({}), body: endless, duplex: "half" } as RequestInit);
    expect(response.status).toBe(413);
  });

  test("when a client goes, nobody listens to its run any more", async () => {
    const { url, prefix } = await setUp();
    const held = Promise.withResolvers<string>();
    await work(prefix, () => held.promise);
    await fetch(`${url}/runs`, json(start));
    const gone = new AbortController();
    const streams = [gone, new AbortController()].map(({ signal }) => fetch(`${url}/runs/r-1/events`, { signal }));
    const [, other] = await Promise.all(streams);
    const { channel } = createKeys(prefix).run("r-1");
    const listeners = async (): Promise<unknown> =>
      ((await cliOf(inject("redisUrl"))("PUBSUB", "NUMSUB", channel)) as unknown[])[1];
    const reader = other?.body?.getReader();
    await reader?.read();
    // One subscription for both.
    await eventually(async () => ((await listeners()) === 1 ? true : undefined));
    gone.abort();
    await reader?.cancel();
    expect(await eventually(async () => ((await listeners()) === 0 ? true : undefined))).toBe(true);
    held.resolve("done");
  });
});

describe("closing", () => {
  test("ends streams with a word, lets requests in hand end, and takes no more", async () => {
    const { server, url, prefix } = await setUp();
    const held = Promise.withResolvers<string>();
    await work(prefix, () => held.promise);
    await fetch(`${url}/runs`, json(start));
    const stream = await fetch(`${url}/runs/r-1/events`);
    const waiting = fetch(`${url}/runs/r-1/result?waitMs=20000`);
    // The server has it once another request, sent later, is answered.
    await fetch(`${url}/runs/r-1`);
    const closing = server.close();
    held.resolve("done");
    expect(await stream.text()).toContain(": the server is closing");
    expect(await (await waiting).json()).toMatchObject({ output: "done" });
    await closing;
    await expect(fetch(`${url}/healthz`)).rejects.toThrow();
    expect((await server.fetch(new Request(`${url}/readyz`))).status).toBe(503);
  });

  test("does not wait for connections that are kept open after their stream has ended", async () => {
    const { server, url, prefix } = await setUp({}, inject("redisUrl"), 60_000);
    const held = Promise.withResolvers<string>();
    await work(prefix, () => held.promise);
    await fetch(`${url}/runs`, json(start));
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname);
    socket.write(`GET /runs/r-1/events HTTP/1.1\r\nHost: ${hostname}:${port}\r\n\r\n`);
    await once(socket, "data");
    const begun = performance.now();
    await server.close();
    // Node would keep it for 5 s.
    expect(performance.now() - begun).toBeLessThan(3_000);
    socket.destroy();
    held.resolve("done");
  });
});

describe("who can reach it", () => {
  test("without keys it listens on loopback alone", async () => {
    const { server } = await setUp();
    await expect(server.listen({ host: "0.0.0.0" })).rejects.toMatchObject({ code: "invalid" });
    expect((await server.listen({ host: "::1" }).catch(() => undefined))?.url ?? "http://[::1]:").toContain("[::1]");
  });

  test("a port that is taken is said to be", async () => {
    const { server, url } = await setUp();
    const port = Number(new URL(url).port);
    await expect(server.listen({ port })).rejects.toMatchObject({ code: "invalid", message: /EADDRINUSE/ });
  });

  test("without keys, and not said to be open, it serves nobody", async () => {
    const { url } = await setUp({ keyless: false });
    expect((await fetch(`${url}/runs`)).status).toBe(401);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
  });
});

describe("a slow or broken client", () => {
  test("whose head or body does not come in time is cut off", async () => {
    const { url } = await setUp({ requestTimeoutMs: 300 });
    const { hostname, port } = new URL(url);
    const headers = { "content-type": "application/json", "content-length": 100 };
    const status = await new Promise<number | undefined>((resolve) => {
      const slow = request({ hostname, port, path: "/runs", method: "POST", headers });
      slow.on("response", ({ statusCode }) => resolve(statusCode));
      slow.on("error", () => resolve(undefined));
      slow.write("{");
    });
    expect([408, 504, undefined]).toContain(status);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
  });
});

test("while Redis is away it says so at once, and works again when it is back", async () => {
  const redis = await startTestRedis({ own: true });
  onTestFinished(() => redis.stop());
  const { url } = await setUp({}, redis.url);
  expect((await fetch(`${url}/counts`)).status).toBe(200);
  await redis.kill9();
  await eventually(async () => ((await fetch(`${url}/readyz`)).status === 503 ? true : undefined));
  const refused = await fetch(`${url}/runs`, json(start));
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "2"]);
  expect(await refused.text()).not.toMatch(/127\.0\.0\.1|ECONN|\.ts/);
  await redis.restart();
  await eventually(async () => ((await fetch(`${url}/readyz`)).status === 200 ? true : undefined));
  expect((await fetch(`${url}/counts`)).status).toBe(200);
});

test("a stream waits out an outage of Redis and tells the rest of the run once", async () => {
  const redis = await startTestRedis({ own: true });
  onTestFinished(() => redis.stop());
  const { url, prefix } = await setUp({ heartbeatMs: 50 }, redis.url);
  const held = Promise.withResolvers<string>();
  await work(prefix, () => held.promise, redis.url);
  await fetch(`${url}/runs`, json(start));
  const { body } = await fetch(`${url}/runs/r-1/events`);
  if (!body) throw new Error("there is no body");
  let text = "";
  let restarting: Promise<void> | undefined;
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    if (!text.includes("event: run_began")) continue;
    restarting ??= (async () => {
      await redis.kill9();
      await eventually(async () => ((await fetch(`${url}/readyz`)).status === 503 ? true : undefined));
      await redis.restart();
      held.resolve("done");
    })();
  }
  await restarting;
  const types = [...text.matchAll(/^event: (.+)$/gm)].map(([, type]) => type);
  expect(types).toEqual(["run_created", "run_began", "text", "model_answered", "run_ended"]);
  expect(text).toContain(": ping");
});
