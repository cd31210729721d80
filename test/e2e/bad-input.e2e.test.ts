// Catches: a mistake of an operator that hangs, loses a run, or is told in a way that helps nobody.
import { describe, expect, test } from "vitest";
import { createDrover } from "../../src/drover.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { type FakeAnswer, turnOf } from "../support/fake-openai.ts";
import { startTestRedis } from "../support/redis.ts";
import { freePort } from "../support/redis-server.ts";
import { startSilentProxy } from "../support/silent-proxy.ts";
import { problemsOf } from "../support/transcript.ts";
import { spawnCliWorker } from "../support/worker-process.ts";
import { makeWorld } from "../support/world.ts";

const refusals: [what: string, answer: FakeAnswer, says: RegExp][] = [
  [
    "a key that the server does not take (401)",
    { status: 401, body: { error: { message: "Incorrect API key provided", code: "invalid_api_key" } } },
    /key/i,
  ],
  [
    "a model that the server does not have (404)",
    { status: 404, body: { error: { message: "The model `fake` does not exist", code: "model_not_found" } } },
    /model "?fake/,
  ],
];

describe.each([
  ["as they come", false],
  ["with every step redelivered", true],
])("trouble with the model that only a person can end, steps %s", (_mode, redeliver) => {
  test.each(refusals)(
    "[G9] %s fails the run with what to do, and a retry goes on from that turn",
    async (_what, refusal, says) => {
      let refusing = true;
      const world = await makeWorld({
        redeliver,
        respond: ({ body }) => {
          const turn = turnOf(body);
          if (turn === 3) return refusing ? refusal : "end";
          return { text: `turn ${turn}`, toolCalls: [{ name: "post", arguments: { note: "a" } }] };
        },
      });
      await world.work();
      const run = await world.drover.start("e2e", "go", { runId: "refused" });
      const failed = await run.result({ timeoutMs: 20_000 });
      expect(failed).toMatchObject({ status: "failed", stopReason: "model_error", turns: 2 });
      expect(failed.error?.message).toMatch(says);
      expect(world.server.requests.length).toBe(3); // a refusal is not tried again
      refusing = false;
      await run.retry({ by: "ann" });
      expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed", output: "end", turns: 3 });
      expect(world.server.requests.map(({ body }) => turnOf(body))).toEqual([1, 2, 3, 3]);
      expect(world.ledger.entries().length).toBe(2);
      expect(problemsOf(await run.transcript())).toEqual([]);
    },
  );
});

test("[G7] input over the limit is refused at once, with both sizes", async () => {
  const world = await makeWorld({ respond: () => "never" });
  const started = world.drover.start("e2e", "x".repeat(1_048_600));
  await expect(started).rejects.toMatchObject({ code: "too_large", message: expect.stringMatching(/1048576/) });
  expect((await world.drover.list()).runs).toEqual([]);
});

test("[G7] a Redis that evicts is refused in one sentence that names the setting", async () => {
  const server = await startTestRedis({ args: ["--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru"] });
  try {
    const world = await makeWorld({ respond: () => "never", server });
    const worker = spawnCliWorker(world.options);
    expect((await worker.exit).code).toBe(1);
    const said = (await worker.printed).split("\n").filter((line) => line !== "" && !line.startsWith("{"));
    expect(said.length).toBe(1);
    expect(said[0]).toMatch(/maxmemory-policy.*noeviction/);
  } finally {
    await server.stop();
  }
});

test("[G7] a producer without Redis is told so within seconds, and nothing hangs", async () => {
  const world = await makeWorld({ respond: () => "never" });
  const proxy = await startSilentProxy(world.options.redisUrl);
  proxy.silence();
  const nobody = `redis://127.0.0.1:${await freePort()}`;
  for (const redis of [nobody, proxy.url]) {
    const drover = createDrover({ redis, prefix: world.prefix, logger: createSilentLogger() });
    const startedAt = performance.now();
    const refusal = { code: "queue_unavailable", message: expect.stringMatching(/Redis at 127\.0\.0\.1:\d+/) };
    await expect(drover.start("e2e", "go")).rejects.toMatchObject(refusal);
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    await drover.close();
  }
});
