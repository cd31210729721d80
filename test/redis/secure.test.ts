// Redis over TLS, as a user who may do no more than Drover needs: a real redis-server, certificates made here.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { hashSecret, makeSecret, toApiKey } from "../../src/api-keys.ts";
import { toError } from "../../src/core/errors.ts";
import { defineAgent } from "../../src/define-agent.ts";
import { createDrover } from "../../src/drover.ts";
import { connect } from "../../src/redis/connection.ts";
import { createRedisKeyStore } from "../../src/redis/key-store.ts";
import { createKeys } from "../../src/redis/keys.ts";
import { createDroverServer, type DroverServer } from "../../src/server.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { scriptedModel } from "../../src/testing/index.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { type Certificates, makeCertificates } from "../support/certificates.ts";
import { type ControlledServer, freePort, startPrivateRedis } from "../support/redis-server.ts";

let dir: string;
let files: Certificates;
let server: ControlledServer;
let port: number;
/** As the user of the server itself, who looks at what was refused. */
let owner: Redis;

const password = "p%40ss-word";
const meant = decodeURIComponent(password);

/** The line that the documentation gives, with a password. */
function readAclLine(): string {
  const line = /^user drover .*$/m.exec(readFileSync("docs/security.md", "utf8"))?.[0] ?? "";
  expect(line).toContain(">PASSWORD");
  return line.replace("PASSWORD", meant);
}

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "drover-tls-"));
  files = makeCertificates(dir);
  const aclFile = join(dir, "users.acl");
  writeFileSync(aclFile, `user default on >owner ~* &* +@all\n${readAclLine()}\n`);
  port = await freePort();
  const tls = ["--tls-port", String(port), "--tls-cert-file", files.cert, "--tls-key-file", files.key];
  const clients = ["--tls-ca-cert-file", files.ca, "--tls-auth-clients", "optional"];
  server = await startPrivateRedis({ args: [...tls, ...clients, "--aclfile", aclFile] });
  owner = new Redis(`rediss://default:owner@127.0.0.1:${port}`, { tls: { ca: readFileSync(files.ca) } });
});
afterAll(async () => {
  owner?.disconnect();
  await server?.stop();
  if (dir) rmSync(dir, { recursive: true });
});

const urlOf = (query: string, host = "127.0.0.1"): string => `rediss://drover:${password}@${host}:${port}/0${query}`;

async function problemOf(url: string): Promise<string> {
  try {
    const connection = connect(url, { role: "producer" });
    try {
      await connection.ready(5_000);
    } finally {
      await connection.close();
    }
    return "";
  } catch (error) {
    return toError(error).message;
  }
}

describe("rediss://", () => {
  test("an authority named in the URL is trusted, a client's certificate is sent", async () => {
    expect(await problemOf(urlOf(`?ca=${files.ca}`))).toBe("");
    await owner.config("SET", "tls-auth-clients", "yes");
    try {
      expect(await problemOf(urlOf(`?ca=${files.ca}&cert=${files.clientCert}&key=${files.clientKey}`))).toBe("");
      expect(await problemOf(urlOf(`?ca=${files.ca}`))).toMatch(/cert=\/path\/client\.pem|connection/);
    } finally {
      await owner.config("SET", "tls-auth-clients", "optional");
    }
  });

  test("a certificate for another name is refused unless that name is given", async () => {
    expect(await problemOf(urlOf(`?ca=${files.ca}&servername=redis.test`))).toBe("");
    expect(await problemOf(urlOf(`?ca=${files.ca}`, "localhost"))).toMatch(
      /certificate is for another name.*servername/,
    );
  });

  test.each([
    ["nobody known here", () => "", /signed by nobody known here; add \?ca=/],
    ["another authority", () => `?ca=${files.otherCa}`, /signed by nobody known here/],
    [
      "a file that is not there",
      () => "?ca=/nowhere/ca.pem",
      /names \/nowhere\/ca\.pem as ca, which cannot be read \(ENOENT\)/,
    ],
    ["a file that is no certificate", () => `?ca=${join(dir, "users.acl")}`, /as ca, which is no file in PEM/],
    ["a certificate without its key", () => `?ca=${files.ca}&cert=${files.clientCert}`, /needs both/],
  ])("signed by %s: one clear statement, without the password", async (_what, query, message) => {
    const problem = await problemOf(urlOf(query()));
    expect(problem).toMatch(message);
    expect(problem).not.toContain(password);
    expect(problem).not.toContain(meant);
  });

  test("TLS where there is none, and its parameters without it, are told", async () => {
    expect(await problemOf(`${server.url.replace("redis:", "rediss:")}`)).toMatch(
      /rediss:\/\/ only for a port that speaks TLS/,
    );
    expect(await problemOf("redis://127.0.0.1:1?ca=/x")).toMatch(/has ca, which only TLS uses/);
  });
});

const agents = [
  defineAgent({
    name: "clerk",
    instructions: "Act.",
    model: scriptedModel([
      { toolCalls: [{ name: "look", arguments: { what: "a" } }] },
      { toolCalls: [{ name: "pay", arguments: { what: "b" } }] },
      "done",
    ]),
    tools: [
      defineTool({
        name: "look",
        description: "Looks.",
        parameters: z.object({ what: z.string() }),
        effect: "read",
        rate: { max: 100, perMs: 1_000 },
        concurrency: 5,
        execute: ({ what }) => what.repeat(100_000),
      }),
      defineTool({
        name: "pay",
        description: "Pays.",
        parameters: z.object({ what: z.string() }),
        effect: "irreversible",
        execute: ({ what }) => what,
      }),
    ],
  }),
];

type Ask = (path: string, init?: RequestInit) => Promise<Response>;

function askWith(http: DroverServer, key: string): Ask {
  return (path, init = {}) =>
    http.fetch(
      new Request(`http://localhost${path}`, {
        ...init,
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      }),
      { address: "127.0.0.1" },
    );
}

test("the user of the documentation may do all that a worker and a server do, and nothing beside", async () => {
  const redis = urlOf(`?ca=${files.ca}`);
  const logger = createSilentLogger();
  const worker = createDrover({ redis, agents, logger });
  const http = createDroverServer({ redis, logger });
  const connection = connect(redis, { role: "producer" });
  const secret = makeSecret();
  try {
    const stored = createRedisKeyStore({ connection, keys: createKeys() });
    await stored.put({ id: "ops", name: "ops", scopes: ["admin"], secretHash: hashSecret(secret), createdAt: 1 });
    const ask = askWith(http, toApiKey("ops", secret));
    await worker.work({ concurrency: 5 });
    const started = await ask("/runs", {
      method: "POST",
      body: JSON.stringify({ agent: "clerk", input: "hello", session: "s-1" }),
    });
    expect(started.status).toBeLessThan(300);
    const { runId } = (await started.json()) as { runId: string };
    const run = worker.get(runId);
    for await (const event of run.events()) {
      if (event.type === "approval_asked") {
        expect(
          (await ask(`/runs/${runId}/calls/${event.callId}/approve`, { method: "POST", body: "{}" })).status,
        ).toBeLessThan(300);
      }
    }
    expect((await run.result({ timeoutMs: 10_000 })).status).toBe("completed");
    const base = `/runs/${runId}`;
    const api = [
      "/runs",
      base,
      `${base}/transcript`,
      `${base}/events`,
      `${base}/turns`,
      `${base}/audit`,
      "/counts",
      "/agents",
      "/fleet",
    ];
    const pages = [
      "/",
      `/ui/runs/${runId}`,
      "/ui/approvals",
      "/ui/fleet",
      "/ui/queues",
      "/ui/queues/api/queues",
      "/readyz",
      "/metrics",
      "/v1/models",
    ];
    for (const path of [...api, ...pages]) {
      const response = await ask(path);
      await response.text();
      expect([path, response.status]).toEqual([path, 200]);
    }
    await stored.putSession("hash", { keyId: "ops", secretHash: "x", csrf: "x", createdAt: 1 }, 1_000);
    await stored.remove("ops");
    await worker.delete(runId);
  } finally {
    await connection.close();
    await http.close();
    await worker.close();
  }
  // How many clients a raw queue has is not worth the right to see everybody's.
  const refused = ((await owner.call("ACL", "LOG")) as string[][]).map((entry) => entry[entry.indexOf("object") + 1]);
  expect(refused.filter((command) => command !== "client|list")).toEqual([]);
});

test.each([
  ["another program's keys", ["GET", "other:secret"]],
  ["writing them", ["SET", "other:secret", "x"]],
  ["names of all keys", ["SCAN", "0"]],
  ["keys by pattern", ["KEYS", "*"]],
  ["emptying it", ["FLUSHALL"]],
  ["other settings", ["CONFIG", "SET", "maxmemory", "1"]],
  ["its users", ["ACL", "LIST"]],
  ["other programs' channels", ["PUBLISH", "other", "x"]],
  ["what all clients send", ["MONITOR"]],
  ["stopping it", ["SHUTDOWN"]],
  ["a script about other keys", ["EVAL", "return redis.call('GET', 'other:secret')", "0"]],
])("that user may not touch %s", async (_what, command) => {
  const client = new Redis(urlOf(""), { tls: { ca: readFileSync(files.ca) } });
  try {
    const [name = "", ...args] = command;
    await expect(client.call(name, ...args)).rejects.toThrow(/NOPERM|permission|can't access/i);
  } finally {
    client.disconnect();
    await owner.call("ACL", "LOG", "RESET");
  }
});
