import { z } from "zod";
import { readApiKeys } from "./read-api-keys.ts";
import { integer, isHttpUrl, trueOrFalse } from "./read-values.ts";
import type { SettingSpec } from "./setting.ts";

const hostSchema = z.string().regex(/^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)$/);

/** What `drover serve` and the metrics of a worker are set by. */
export const httpSpecs: readonly SettingSpec[] = [
  {
    key: "httpPort",
    name: "DROVER_HTTP_PORT",
    description: "Port of `drover serve` and of the page of `drover dev`; 0 takes any free one.",
    defaultValue: "7717",
    expected: "a whole number from 0 to 65535",
    secret: false,
    schema: integer(0, 65_535),
  },
  {
    key: "httpHost",
    name: "DROVER_HTTP_HOST",
    description: "Address that `drover serve` listens on. Anything but loopback needs keys.",
    defaultValue: "127.0.0.1",
    expected: "a host name or an address like 127.0.0.1, ::1 or 0.0.0.0, without a port",
    secret: false,
    schema: hostSchema,
  },
  {
    key: "apiKeys",
    name: "DROVER_API_KEYS",
    description:
      'Keys for HTTP beside those of `drover keys`: a list in JSON, or the path of a file with one, as `[{"id":"ci","scopes":["start","read"],"hash":"<SHA-256 of the secret>"}]`. `drover keys create NAME --static` makes an entry.',
    defaultValue: undefined,
    expected: "a list of keys in JSON, or the path of a file that holds one",
    secret: true,
    schema: z.string().transform(readApiKeys),
    tellsMore: true,
  },
  {
    key: "httpBodyLimitBytes",
    name: "DROVER_HTTP_BODY_LIMIT",
    description: "Largest body of a request that is read, in bytes.",
    defaultValue: "2097152",
    expected: "a whole number of bytes from 1024 to 104857600",
    secret: false,
    schema: integer(1024, 104_857_600),
  },
  {
    key: "httpTimeoutMs",
    name: "DROVER_HTTP_TIMEOUT_MS",
    description: "How long a request may take to arrive and to be answered, in ms; streams may take longer.",
    defaultValue: "30000",
    expected: "a whole number of ms from 1000 to 600000",
    secret: false,
    schema: integer(1_000, 600_000),
  },
  {
    key: "httpSecureCookies",
    name: "DROVER_HTTP_SECURE_COOKIES",
    description:
      "`true`: the sign-in cookie goes over HTTPS only, as it should behind a proxy that ends TLS. Without it: `true` unless the server listens on loopback.",
    defaultValue: undefined,
    expected: "true or false",
    secret: false,
    schema: trueOrFalse,
  },
  {
    key: "traceUrl",
    name: "DROVER_TRACE_URL",
    description: "Where a run's trace is looked at, for example `http://localhost:16686/trace/{traceId}`.",
    defaultValue: undefined,
    expected: "a URL like http://localhost:16686/trace/{traceId}, with {traceId} in it",
    secret: false,
    schema: z.string().refine((text) => text.includes("{traceId}") && isHttpUrl(text)),
  },
  {
    key: "metricsPort",
    name: "DROVER_METRICS_PORT",
    description:
      "Port on which `drover worker` answers `GET /metrics` for Prometheus, and `/healthz` and `/readyz`; 0 takes any free one. `drover serve` answers it on its own port.",
    defaultValue: undefined,
    expected: "a whole number from 0 to 65535",
    secret: false,
    schema: integer(0, 65_535),
  },
  {
    key: "metricsHost",
    name: "DROVER_METRICS_HOST",
    description: "Address of `DROVER_METRICS_PORT`. Whoever can reach it can read it: it takes no keys.",
    defaultValue: "127.0.0.1",
    expected: "a host name or an address like 127.0.0.1, ::1 or 0.0.0.0, without a port",
    secret: false,
    schema: hostSchema,
  },
];
