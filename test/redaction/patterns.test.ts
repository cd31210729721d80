import { describe, expect, test } from "vitest";
import { createRedactor } from "../../src/core/redact.ts";
import { secretsOfEnvironment, toKnown } from "../../src/redaction/known.ts";
import { parsePatterns } from "../../src/redaction/patterns.ts";
import { toRedaction } from "../../src/redaction/redaction.ts";
import { redisSecrets } from "../../src/redis/redis-target.ts";

const redact = (pattern: RegExp | string, text: string): string =>
  toRedaction({ patterns: [{ name: "own", pattern }] }, []).redactor.text(text);

describe("patterns of users", () => {
  test.each([
    [/CUST-\d+/, "for CUST-17 and cust-18", "for [redacted: own] and cust-18"],
    [/cust-\d+/gi, "for CUST-17, cust-18", "for [redacted: own], [redacted: own]"],
    ["\\bpin \\d{4}\\b", "pin 1234 spin 1234 pin 12345", "[redacted: own] spin 1234 pin 12345"],
    [/^key.(?<rest>x+)$/ms, "a\nkey\nxx\nb", "a\n[redacted: own]\nb"],
    [/[\u0370-\u03ff]{3}/u, "abc αβγ", "abc [redacted: own]"],
  ])("%s", (pattern, text, expected) => {
    expect(redact(pattern, text)).toBe(expected);
    expect(redact(pattern, `${"filler ".repeat(100)}\n${text}`)).toContain(expected);
  });

  test.each([/(a+)+$/, /(a|a)*b/, /(.*)(.*)(.*)=/, /\s+$/, /(?:[a-z]+_?)+!/])(
    "one that would hang another engine is executed in linear time: %s",
    (pattern) => {
      const source = pattern.source.replace("(a|a)*b", "(a|a)+b");
      const startedAt = performance.now();
      redact(source, "a".repeat(200_000));
      redact(source, " ".repeat(200_000));
      expect(performance.now() - startedAt).toBeLessThan(5_000);
    },
  );

  test("all that cannot be used is told at once, and why", () => {
    const given = [
      { name: "open", pattern: "(" },
      { name: "empty", pattern: "x*" },
      { name: "edge", pattern: /\b/ },
      { name: "behind", pattern: /(?<=id )x/ },
      { name: "again", pattern: /(a)\1/ },
      { name: "fine", pattern: "x" },
    ];
    expect(parsePatterns(given)).toEqual({
      ok: false,
      problems: [
        expect.stringMatching(/^patterns\.0: "\(" cannot be used: .*missing closing \)/),
        expect.stringMatching(/^patterns\.1: "x\*" matches the empty text/),
        expect.stringMatching(/^patterns\.2: .* matches the empty text/),
        expect.stringMatching(/^patterns\.3: .*looks ahead or behind/),
        expect.stringMatching(/^patterns\.4: .*refers back to a group/),
      ],
    });
    expect(parsePatterns([{ name: "", pattern: 1 }])).toMatchObject({
      ok: false,
      problems: [expect.stringMatching(/patterns\.0\.name/), expect.stringMatching(/patterns\.0\.pattern/)],
    });
    expect(() => toRedaction({ patterns: [{ name: "open", pattern: "(" }] }, [])).toThrow(
      /^The redaction cannot be used: patterns\.0: .*\.$/,
    );
  });
});

describe("known secrets", () => {
  test("of Drover's settings", () => {
    const known = secretsOfEnvironment({
      OPENAI_API_KEY: " very-own-key-1 ",
      REDIS_URL: "redis://u:p%40ss-word-2@h",
      OPENAI_BASE_URL: "https://u:100%25-word-3@h/v1",
      OTEL_EXPORTER_OTLP_HEADERS: "x-one=value%20one-4,authorization=Basic%20abc5def",
      OTEL_EXPORTER_OTLP_ENDPOINT: "not a URL",
    });
    const redactor = createRedactor({ known });
    for (const value of [
      "very-own-key-1",
      "p%40ss-word-2",
      "p@ss-word-2",
      "100%-word-3",
      "value one-4",
      "Basic abc5def",
    ])
      expect(redactor.text(`x ${value} y`)).toMatch(/^x \[redacted: [a-z ]+\] y$/);
    expect(secretsOfEnvironment({})).toEqual([]);
    expect(secretsOfEnvironment({ REDIS_URL: "redis://u:%zz@h" })).toEqual([{ kind: "password", value: "%zz" }]);
    expect(toKnown("x", [undefined, "", "y"])).toEqual([{ kind: "x", value: "y" }]);
  });

  test("of Redis, however it is given", () => {
    const values = (target: Parameters<typeof redisSecrets>[0]): string[] =>
      redisSecrets(target).map(({ value }) => value);
    expect(values("redis://u:p%40ss@h")).toEqual(["p%40ss", "p@ss"]);
    expect(values({ host: "h", password: "p", sentinelPassword: "q" })).toEqual(["p", "q"]);
    expect(values("/tmp/redis.sock")).toEqual([]);
  });
});
