import { describe, expect, test } from "vitest";
import { createLogger, createSilentLogger, type LogLevel, logLevelSchema } from "../../src/telemetry/logger.ts";

function capture(level?: LogLevel): {
  lines: () => Record<string, unknown>[];
  logger: ReturnType<typeof createLogger>;
} {
  const written: string[] = [];
  const logger = createLogger({ level, destination: { write: (line) => void written.push(line) } });
  return { logger, lines: () => written.map((line) => JSON.parse(line)) };
}

describe("a log line", () => {
  test("is one JSON object with the fields as given", () => {
    const { logger, lines } = capture();
    logger.info({ runId: "order-42", turn: 3, traceId: "abc" }, "step done");
    expect(lines()).toEqual([
      {
        level: "info",
        time: expect.stringMatching(/^\d{4}-.*Z$/),
        runId: "order-42",
        turn: 3,
        traceId: "abc",
        message: "step done",
      },
    ]);
  });

  test.each([
    ["debug", ["debug", "info", "warn", "error"]],
    ["info", ["info", "warn", "error"]],
    ["warn", ["warn", "error"]],
    ["error", ["error"]],
    ["silent", []],
  ] as const)("at level %s", (level, expected) => {
    const { logger, lines } = capture(level);
    for (const name of ["debug", "info", "warn", "error"] as const) logger[name]({}, name);
    expect(lines().map((line) => line.level)).toEqual(expected);
  });

  test("the silent logger takes everything and says nothing", () => {
    expect(createSilentLogger().error({ runId: "r" }, "x")).toBeUndefined();
    expect(logLevelSchema.safeParse("loud").success).toBe(false);
  });
});

describe("what must not leak", () => {
  test("secrets by field name, at the top and below", () => {
    const { logger, lines } = capture();
    const secret = "sk-very-secret";
    logger.warn(
      { apiKey: secret, options: { password: secret, headers: { authorization: secret } }, model: "m" },
      "refused",
    );
    expect(JSON.stringify(lines())).not.toContain(secret);
    expect(lines()[0]).toMatchObject({
      model: "m",
      options: { headers: { authorization: "[redacted: authorization]" } },
    });
  });

  test("credentials of URLs, in fields and in messages", () => {
    const { logger, lines } = capture();
    logger.info({ redis: "rediss://app:hunter2@db.example:6380/0" }, "connected to redis://:hunter2@db.example");
    expect(JSON.stringify(lines())).not.toContain("hunter2");
    expect(lines()[0]).toMatchObject({ redis: "rediss://app:[redacted: password]@db.example:6380/0" });
  });

  test("an error's fields: a Redis client keeps the command's arguments there", () => {
    const { logger, lines } = capture();
    const error = Object.assign(new Error("READONLY at redis://u:hunter2@h"), {
      code: "READONLY",
      command: { name: "hset", args: ["run", "what the user said"] },
      cause: new Error("what the user said"),
    });
    logger.error({ error, nested: { err: error } }, "commit failed");
    const [line] = lines();
    expect(line?.error).toEqual({ code: "READONLY", message: "READONLY at redis://u:[redacted: password]@h" });
    expect(line?.nested).toEqual({ err: line?.error });
    expect(JSON.stringify(line)).not.toMatch(/what the user said|hunter2/);
  });

  test("odd values do not break logging, and the caller's objects stay as they are", () => {
    const { logger, lines } = capture();
    const loop: Record<string, unknown> = { apiKey: "k" };
    loop.self = loop;
    logger.info({ loop, big: 10n, none: null, list: [new Error("x")] }, "odd");
    expect(lines()[0]).toMatchObject({ big: "10", none: null, list: [{ message: "x" }] });
    expect(loop.apiKey).toBe("k");
  });
});
