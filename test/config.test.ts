import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { loadConfig, readConfig, settings, toEnvExample, toSettingsTable } from "../src/config.ts";
import { DroverError } from "../src/core/errors.ts";
import { hidePassword } from "../src/hide-password.ts";

function problemOf(env: NodeJS.ProcessEnv): string {
  try {
    readConfig(env);
  } catch (error) {
    expect(error).toBeInstanceOf(DroverError);
    expect((error as DroverError).code).toBe("invalid");
    return (error as DroverError).message;
  }
  throw new Error("nothing was reported");
}

test("an empty environment gives the defaults of the table", () => {
  expect(readConfig({})).toEqual({
    redisUrl: undefined,
    prefix: "{drover}",
    shards: 1,
    concurrency: 100,
    model: "gpt-5-mini",
    openaiApiKey: undefined,
    openaiBaseUrl: undefined,
    logLevel: "info",
    payloadLimitBytes: 1_048_576,
    retention: { completed: 0, failed: 0, cancelled: 0, rejected: 0 },
    memoryLimitPercent: 90,
    stopGraceMs: 10_000,
    stuckAfterMs: 300_000,
    isolateAfter: 3,
    redactStored: false,
    httpHost: "127.0.0.1",
    httpPort: 7717,
    httpBodyLimitBytes: 2_097_152,
    httpTimeoutMs: 30_000,
    metricsHost: "127.0.0.1",
    otel: {},
  });
});

test("an empty variable counts as not set, as docker compose passes them", () => {
  const config = readConfig({ REDIS_URL: "", DROVER_CONCURRENCY: " ", OPENAI_API_KEY: "" });
  expect(config.redisUrl).toBeUndefined();
  expect(config.openaiApiKey).toBeUndefined();
  expect(config.concurrency).toBe(100);
});

test.each([
  ["REDIS_URL", "redis://localhost:6379/2", "redisUrl", "redis://localhost:6379/2"],
  ["REDIS_URL", "rediss://u:p@host:6380", "redisUrl", "rediss://u:p@host:6380"],
  ["REDIS_URL", "unix:///run/redis.sock", "redisUrl", "unix:///run/redis.sock"],
  ["DROVER_PREFIX", "{team-a}", "prefix", "{team-a}"],
  ["DROVER_PREFIX", "team-a", "prefix", "team-a"],
  ["REDIS_URL", "/run/redis.sock", "redisUrl", "/run/redis.sock"],
  ["REDIS_URL", "redis+sentinel://:p@a:1,b:2/group", "redisUrl", "redis+sentinel://:p@a:1,b:2/group"],
  ["REDIS_URL", "rediss+cluster://a:7000,b:7001", "redisUrl", "rediss+cluster://a:7000,b:7001"],
  ["DROVER_CONCURRENCY", "7", "concurrency", 7],
  ["DROVER_PAYLOAD_LIMIT", "2048", "payloadLimitBytes", 2048],
  ["DROVER_STOP_GRACE_MS", "0", "stopGraceMs", 0],
  ["DROVER_STUCK_AFTER_MS", "60000", "stuckAfterMs", 60_000],
  ["DROVER_ISOLATE_AFTER", "5", "isolateAfter", 5],
  ["DROVER_LOG_LEVEL", "debug", "logLevel", "debug"],
  ["OPENAI_BASE_URL", "http://localhost:11434/v1", "openaiBaseUrl", "http://localhost:11434/v1"],
  ["DROVER_HTTP_PORT", "0", "httpPort", 0],
  ["DROVER_HTTP_HOST", "::", "httpHost", "::"],
  ["DROVER_HTTP_HOST", "drover.internal", "httpHost", "drover.internal"],
  ["DROVER_HTTP_BODY_LIMIT", "4096", "httpBodyLimitBytes", 4096],
  ["DROVER_HTTP_TIMEOUT_MS", "1000", "httpTimeoutMs", 1000],
  ["DROVER_HTTP_SECURE_COOKIES", "false", "httpSecureCookies", false],
  ["DROVER_TRACE_URL", "http://localhost:16686/trace/{traceId}", "traceUrl", "http://localhost:16686/trace/{traceId}"],
] as const)("%s=%s is taken", (name, value, key, expected) => {
  expect(readConfig({ [name]: value })[key]).toBe(expected);
});

test.each([
  ["REDIS_URL", "localhost:6379"],
  ["REDIS_URL", "redis://"],
  ["REDIS_URL", "redis+cluster://"],
  ["REDIS_URL", "redis+other://a"],
  ["DROVER_PREFIX", "a{b}"],
  ["DROVER_CONCURRENCY", "0"],
  ["DROVER_CONCURRENCY", "many"],
  ["DROVER_CONCURRENCY", "1e3"],
  ["DROVER_LOG_LEVEL", "loud"],
  ["DROVER_PAYLOAD_LIMIT", "1"],
  ["DROVER_STOP_GRACE_MS", "-1"],
  ["OPENAI_API_KEY", "two words"],
  ["OPENAI_BASE_URL", "ftp://host"],
  ["DROVER_HTTP_PORT", "65536"],
  ["DROVER_HTTP_HOST", "localhost:7717"],
  ["DROVER_HTTP_HOST", "a b"],
  ["DROVER_HTTP_BODY_LIMIT", "0"],
  ["DROVER_HTTP_TIMEOUT_MS", "10"],
  ["DROVER_HTTP_SECURE_COOKIES", "yes"],
  ["DROVER_TRACE_URL", "http://localhost:16686/trace/"],
  ["DROVER_TRACE_URL", "javascript:{traceId}"],
])("%s=%s is refused with the name, what was expected and what was received", (name, value) => {
  const message = problemOf({ [name]: value });
  const setting = settings.find((one) => one.name === name);
  expect(message).toContain(`${name}: expected ${setting?.expected}`);
  expect(message).toContain("received");
  if (setting?.secret) expect(message).not.toContain(`"${value}"`);
  else expect(message).toContain(JSON.stringify(value));
});

test("all problems are reported at once, secrets not shown", () => {
  const message = problemOf({
    REDIS_URL: "http://user:hunter2@host",
    DROVER_CONCURRENCY: "x",
    OPENAI_API_KEY: "sk-very secret",
  });
  expect(message).toMatch(/^3 settings are wrong/);
  for (const name of ["REDIS_URL", "DROVER_CONCURRENCY", "OPENAI_API_KEY"]) expect(message).toContain(name);
  expect(message).not.toContain("hunter2");
  expect(message).not.toContain("secret");
});

test("a policy file may begin with a byte order mark; no rule may say a thing twice", () => {
  const dir = mkdtempSync(join(tmpdir(), "drover-config-"));
  const file = join(dir, "policy.json");
  writeFileSync(file, '\uFEFF[{"tool":"pay","allow":false},{"tool":"a\\"b:{","allow":true}]');
  expect(readConfig({ DROVER_POLICY: file }).policy).toHaveLength(2);
  rmSync(dir, { recursive: true });
  for (const rule of ['{"tool":"pay","allow":false,"allow":true}', '{"tool":"pay","allow":false,"t\\u006fol":"x"}']) {
    expect(problemOf({ DROVER_POLICY: `[{"tool":"y","allow":true},${rule}]` })).toMatch(/stands twice in one rule/);
  }
});

test("DROVER_POLICY is JSON or the path of a file with it; each thing wrong with it is told by rule and field", () => {
  const dir = mkdtempSync(join(tmpdir(), "drover-config-"));
  const file = join(dir, "policy.json");
  writeFileSync(file, '[{"tool":"pay","approval":"always"}]');
  const policy = [{ tool: "pay", approval: "always" }];
  expect(readConfig({}).policy).toBeUndefined();
  expect(readConfig({ DROVER_POLICY: ' [{"tool":"pay","approval":"always"}] ' }).policy).toEqual(policy);
  expect(readConfig({ DROVER_POLICY: file }).policy).toEqual(policy);
  writeFileSync(file, '[{"tool":"pay","approval":"no"},{"tool":"x"}]');
  const message = problemOf({ DROVER_POLICY: file, DROVER_CONCURRENCY: "x" });
  expect(message).toMatch(/^3 settings are wrong/);
  expect(message).toContain(`DROVER_POLICY: ${file}: rule 1, approval: expected "always" or "never"`);
  expect(message).toContain(`DROVER_POLICY: ${file}: rule 2: it sets none of`);
  for (const value of ["[", join(dir, "missing.json"), "{}"]) {
    expect(problemOf({ DROVER_POLICY: value })).toMatch(/DROVER_POLICY: .*expected a list of rules/);
  }
  rmSync(dir, { recursive: true });
});

test("OTEL_* variables pass through as they are", () => {
  const config = readConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://j:4318", OTEL_SERVICE_NAME: "", OTHER: "1" });
  expect(config.otel).toEqual({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://j:4318" });
});

const added: string[] = [];
afterEach(() => {
  for (const name of added.splice(0)) delete process.env[name];
});

test(".env adds settings and does not override the environment", () => {
  const dir = mkdtempSync(join(tmpdir(), "drover-config-"));
  try {
    added.push("DROVER_PREFIX", "DROVER_CONCURRENCY");
    process.env.DROVER_PREFIX = "from-environment";
    writeFileSync(join(dir, ".env"), "DROVER_PREFIX=from-file\nDROVER_CONCURRENCY=3 # a comment\n");
    const config = loadConfig(dir);
    expect(config.prefix).toBe("from-environment");
    expect(config.concurrency).toBe(3);
  } finally {
    rmSync(dir, { recursive: true });
  }
});

test("the table for the README has a row for every setting", () => {
  const table = toSettingsTable();
  for (const setting of settings) expect(table).toContain(`| \`${setting.name}\` |`);
  expect(table).toContain("`OTEL_*`");
});

test("the example for .env describes every setting and sets none", () => {
  const example = toEnvExample();
  for (const { name, defaultValue = "" } of settings) expect(example).toContain(`\n# ${name}=${defaultValue}\n`);
  expect(example.split("\n").filter((line) => line !== "" && !line.startsWith("#"))).toEqual([]);
  expect(example.split("\n").filter((line) => line.length > 200)).toEqual([]);
});

test.each([
  ["redis://user:secret@host:6379/1", "redis://user:***@host:6379/1"],
  ["redis://:secret@host", "redis://:***@host"],
  ["redis://host:6379", "redis://host:6379"],
  ["rediss://host/0?password=secret", "rediss://host/0?***"],
  ["unix:///tmp/redis.sock", "unix:///tmp/redis.sock"],
  ["secret", "(not a URL)"],
])("%s is shown as %s", (url, shown) => {
  expect(hidePassword(url)).toBe(shown);
});

test("redaction: patterns are checked when they are read, and never shown", () => {
  const patterns = [{ name: "customer", pattern: "CUST-[0-9]+" }];
  expect(readConfig({ DROVER_REDACT_PATTERNS: JSON.stringify(patterns), DROVER_REDACT_STORED: "true" })).toMatchObject({
    redactPatterns: patterns,
    redactStored: true,
  });
  expect(() => readConfig({ DROVER_REDACT_PATTERNS: '[{"name":"x","pattern":"a*"}]' })).toThrow(
    /DROVER_REDACT_PATTERNS: patterns\.0: "a\*" matches the empty text/,
  );
  expect(() => readConfig({ DROVER_REDACT_PATTERNS: "my-secret-thing" })).toThrow(/cannot be read \(SyntaxError\)$/);
});

test("retention: one age for all statuses, or some of them", () => {
  const of = (text: string): unknown => readConfig({ DROVER_RETENTION_MS: text }).retention;
  expect(of("86400000")).toEqual({
    completed: 86_400_000,
    failed: 86_400_000,
    cancelled: 86_400_000,
    rejected: 86_400_000,
  });
  expect(of('{"completed":1000,"failed":0}')).toEqual({ completed: 1_000, failed: 0 });
  for (const wrong of ["999", "-1", "1d", "1.5", '{"running":5000}', '{"failed":10}', "[1000]", "null"]) {
    expect(() => of(wrong)).toThrow(/DROVER_RETENTION_MS: expected a whole number of ms, 0 or from 1000 on/);
  }
});

test("what is waited for comes as a JSON object, and what does not fit is refused with what does", () => {
  const of = (text: string): unknown => readConfig({ DROVER_DURABILITY: text }).durability;
  expect(readConfig({}).durability).toBeUndefined();
  expect(of('{"replicas":1,"fsync":true,"timeoutMs":500}')).toEqual({ replicas: 1, fsync: true, timeoutMs: 500 });
  for (const wrong of ["1", "{", '{"replica":1}', '{"replicas":-1}', '{"timeoutMs":1}']) {
    expect(() => of(wrong)).toThrow(/DROVER_DURABILITY: expected a JSON object of replicas/);
  }
});
