// Catches: a secret that a tool, a user or a model says and that comes out in a log line, in a span, on a screen or,
// where it was asked for, in Redis.
import { Redis } from "ioredis";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { createDrover, type Drover } from "../../src/drover.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { type CliProcess, fixture, runDrover, startDrover } from "../cli/run-drover.ts";
import { startFakeOpenai, turnOf } from "../support/fake-openai.ts";
import { type OtlpReceiver, startOtlpReceiver } from "../support/otlp-receiver.ts";
import { deletePrefix, testPrefix } from "../support/redis.ts";
import { apiKey, spilled, spilledSecrets } from "../support/secrets.ts";

const leaksIn = (text: string): string[] => spilledSecrets.filter((secret) => text.includes(secret));

/** Everything under a prefix, as text. */
async function dump(redis: Redis, prefix: string): Promise<string> {
  const keys: string[] = [];
  for await (const page of redis.scanStream({ match: `${prefix}:*`, count: 1_000 })) keys.push(...(page as string[]));
  const read = async (key: string): Promise<unknown> => {
    const type = await redis.type(key);
    if (type === "hash") return redis.hgetall(key);
    if (type === "list") return redis.lrange(key, 0, -1);
    if (type === "stream") return redis.xrange(key, "-", "+");
    if (type === "zset") return redis.zrange(key, "0", "-1");
    return type === "set" ? redis.smembers(key) : redis.get(key);
  };
  const values = await Promise.all(keys.map(async (key) => `${key} ${JSON.stringify(await read(key))}`));
  // Records hold JSON in JSON: quotes of a secret are written in more than one way.
  return values.join("\n").replaceAll("\\", "");
}

type Scene = {
  env: Record<string, string>;
  worker: CliProcess;
  receiver: OtlpReceiver;
  drover: Drover;
  dump(): Promise<string>;
};

async function makeScene(more: Record<string, string>): Promise<Scene> {
  const redisUrl = inject("redisUrl");
  const prefix = testPrefix();
  // Two answers, the last one with its secrets cut in the middle by the stream.
  const server = await startFakeOpenai({
    respond: ({ body }) =>
      turnOf(body) === 1
        ? { text: `I say ${spilled.join(" ")} first.`, toolCalls: [{ name: "spill", arguments: {} }] }
        : { deltas: `It was ${spilled.join(" and ")} after all.`.split(""), chunkDelayMs: 1 },
  });
  onTestFinished(() => server.stop());
  const receiver = await startOtlpReceiver();
  onTestFinished(() => receiver.close());
  const redis = new Redis(redisUrl);
  onTestFinished(async () => {
    redis.disconnect();
    await deletePrefix(redisUrl, prefix);
  });
  const env = {
    REDIS_URL: redisUrl,
    DROVER_PREFIX: prefix,
    DROVER_LOG_LEVEL: "debug",
    DROVER_REDACT_PATTERNS: JSON.stringify([{ name: "customer", pattern: "CUST-[0-9]+-[0-9]+" }]),
    OPENAI_API_KEY: apiKey,
    ...more,
  };
  const drover = createDrover({
    redis: redisUrl,
    prefix,
    logger: createSilentLogger(),
    redaction: {
      patterns: [
        { name: "customer", pattern: /CUST-\d+-\d+/ },
        { name: "own key", pattern: apiKey },
      ],
    },
  });
  onTestFinished(() => drover.close());
  const worker = startDrover(["worker", fixture("secrets.ts")], {
    env: {
      ...env,
      OPENAI_BASE_URL: server.url,
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
      OTEL_BSP_SCHEDULE_DELAY: "100",
      OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: "true",
    },
  });
  onTestFinished(async () => {
    worker.child.kill("SIGKILL");
    await worker.ended;
  });
  await worker.untilOutput(/^worker \d+ ready/m);
  return { env, worker, receiver, drover, dump: () => dump(redis, prefix) };
}

describe.each([
  ["shown", false],
  ["shown and stored", true],
])("secrets are redacted in what is %s", (_title, stored) => {
  test("in logs, spans, results and on the command line", async () => {
    const scene = await makeScene(stored ? { DROVER_REDACT_STORED: "true" } : {});
    const { env, worker, receiver, drover } = scene;
    const input = `Please use ${spilled.join(" ")} now`;
    const started = await runDrover(["start", "leaky", input, "--id", "leak-1", "--watch"], { env });
    expect(started).toMatchObject({ code: 0 });
    const result = await drover.get("leak-1").result({ timeoutMs: 20_000 });
    expect(result.output).toMatch(/^It was \[redacted: openai key\].*\[redacted: customer\].* after all\.$/s);

    const commands = [["show", "leak-1"], ["show", "leak-1", "--json"], ["show", "leak-1", "--audit"], ["list"]];
    const watches = [
      ["watch", "leak-1"],
      ["watch", "leak-1", "--json"],
    ];
    const printed = await Promise.all([...commands, ...watches].map((args) => runDrover(args, { env })));
    for (const { code, stdout } of printed) expect([code, stdout !== ""]).toEqual([0, true]);
    await receiver.waitFor((spans) => spans.some(({ name }) => name.startsWith("invoke_agent")));
    worker.child.kill("SIGTERM");
    const log = await worker.ended;

    expect(log.stderr).toContain("[redacted: customer]");
    expect(leaksIn(log.stdout + log.stderr)).toEqual([]);
    const spans = Buffer.concat(receiver.bodies).toString().replaceAll("\\", "");
    expect(spans).toContain("[redacted: customer]");
    expect(leaksIn(spans)).toEqual([]);
    for (const { stdout, stderr } of [started, ...printed])
      expect(leaksIn((stdout + stderr).replaceAll("\\", ""))).toEqual([]);
    expect(printed.map(({ stdout }) => stdout).join("\n")).toContain("[redacted: openai key]");
    expect(leaksIn(JSON.stringify([result, await drover.get("leak-1").status()]))).toEqual([]);

    const records = await scene.dump();
    expect(records).toContain("leak-1");
    expect(leaksIn(records)).toEqual(stored ? [] : [...spilledSecrets]);
    const transcript = JSON.stringify(await drover.get("leak-1").transcript());
    expect(transcript.includes("[redacted: customer]")).toBe(stored);
  });
});
