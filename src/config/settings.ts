import { z } from "zod";
import { logLevels } from "../core/defaults.ts";
import { httpSpecs } from "./http-settings.ts";
import { integer, isHttpUrl, isRedisUrl, readPatterns, readPolicy, trueOrFalse } from "./read-values.ts";
import type { SettingSpec } from "./setting.ts";
import { storageSpecs } from "./storage-settings.ts";

/** Every setting but `OTEL_*`, in the order in which documentation lists them. */
export const specs: readonly SettingSpec[] = [
  {
    key: "redisUrl",
    name: "REDIS_URL",
    description:
      "Redis or Valkey to work on: one server, a group that sentinels watch, or a cluster. Without it `demo` and `dev` start a private one in `.drover/`.",
    defaultValue: undefined,
    expected:
      "a URL like redis://host:6379, rediss://user:password@host:6380/0, unix:///path/redis.sock, redis+sentinel://host:26379,host2:26379/group or redis+cluster://host:7000,host2:7001",
    secret: true,
    schema: z.string().refine(isRedisUrl),
  },
  {
    key: "prefix",
    name: "DROVER_PREFIX",
    description:
      "First part of every key in Redis; installations that share one Redis need different ones. The braces put all keys in one slot of a cluster.",
    defaultValue: "{drover}",
    expected: "1 to 64 letters, digits, '-', '_' or '.', in braces if it is to work on a Redis Cluster",
    secret: false,
    schema: z.string().regex(/^(?:\{[A-Za-z0-9._-]{1,64}\}|[A-Za-z0-9._-]{1,64})$/),
  },
  {
    key: "shards",
    name: "DROVER_SHARDS",
    description:
      "Parts that runs are spread over, each in a slot of its own of a Redis Cluster. The first process decides it for the prefix; all need the same.",
    defaultValue: "1",
    expected: "a whole number from 1 to 256",
    secret: false,
    schema: integer(1, 256),
  },
  {
    key: "concurrency",
    name: "DROVER_CONCURRENCY",
    description: "Steps one worker process runs at a time.",
    defaultValue: "100",
    expected: "a whole number from 1 to 10000",
    secret: false,
    schema: integer(1, 10_000),
  },
  {
    key: "model",
    name: "DROVER_MODEL",
    description: "Model of the built-in agents (`demo`, `dev` without a file).",
    defaultValue: "gpt-5-mini",
    expected: "the name of a model, at most 256 characters",
    secret: false,
    schema: z.string().min(1).max(256),
  },
  {
    key: "openaiApiKey",
    name: "OPENAI_API_KEY",
    description: "Key for the model server.",
    defaultValue: undefined,
    expected: "a key without spaces or line breaks",
    secret: true,
    schema: z.string().regex(/^\S+$/),
  },
  {
    key: "openaiBaseUrl",
    name: "OPENAI_BASE_URL",
    description: "Any OpenAI-compatible server, for example `http://localhost:11434/v1`.",
    defaultValue: undefined,
    expected: "a URL like https://host/v1",
    secret: true,
    schema: z.string().refine(isHttpUrl),
  },
  {
    key: "logLevel",
    name: "DROVER_LOG_LEVEL",
    description: "Least urgent log lines that are written; `debug` also shows stacks of errors.",
    defaultValue: "info",
    expected: `one of ${logLevels.join(", ")}`,
    secret: false,
    schema: z.enum(logLevels),
  },
  {
    key: "payloadLimitBytes",
    name: "DROVER_PAYLOAD_LIMIT",
    description: "Largest input of a run that is accepted, in bytes of JSON.",
    defaultValue: "1048576",
    expected: "a whole number of bytes from 1024 to 104857600",
    secret: false,
    schema: integer(1024, 104_857_600),
  },
  ...storageSpecs,
  {
    key: "stopGraceMs",
    name: "DROVER_STOP_GRACE_MS",
    description: "How long a stopping worker lets its steps finish, in ms; what is left is taken by other workers.",
    defaultValue: "10000",
    expected: "a whole number of ms from 0 to 600000",
    secret: false,
    schema: integer(0, 600_000),
  },
  {
    key: "stuckAfterMs",
    name: "DROVER_STUCK_AFTER_MS",
    description:
      "How long work may wait and a worker begin none before `/healthz` on its `DROVER_METRICS_PORT` says 503, in ms. Set it above your longest step where all slots may be taken by long ones.",
    defaultValue: "300000",
    expected: "a whole number of ms from 1000 to 86400000",
    secret: false,
    schema: integer(1_000, 86_400_000),
  },
  {
    key: "isolateAfter",
    name: "DROVER_ISOLATE_AFTER",
    description:
      "How many workers a step may lose before it runs alone in a child process. If that dies too, its run fails as `poison`.",
    defaultValue: "3",
    expected: "a whole number from 1 to 1000",
    secret: false,
    schema: integer(1, 1_000),
  },
  {
    key: "policy",
    name: "DROVER_POLICY",
    description:
      "What workers may do with tools, over what the code says: a list of rules in JSON, or the path of a file with one.",
    defaultValue: undefined,
    expected: "a list of rules in JSON, or the path of a file that holds one",
    secret: false,
    schema: z.string().transform(readPolicy),
    tellsMore: true,
  },
  {
    key: "redactPatterns",
    name: "DROVER_REDACT_PATTERNS",
    description:
      'What is a secret too and must not be shown: a list in JSON, as `[{"name":"customer","pattern":"CUST-[0-9]+"}]`.',
    defaultValue: undefined,
    expected: "a list of names and patterns in JSON",
    // A pattern may hold a secret itself.
    secret: true,
    schema: z.string().transform(readPatterns),
    tellsMore: true,
  },
  {
    key: "redactStored",
    name: "DROVER_REDACT_STORED",
    description: "`true`: input, answers and results are redacted before they are stored, too.",
    defaultValue: "false",
    expected: "true or false",
    secret: false,
    schema: trueOrFalse,
  },
  ...httpSpecs,
];
