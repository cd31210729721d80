// Catches: an address that does another thing than its document says, or answers with another status.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { Agent } from "../../../src/define-agent.ts";
import { defineAgent } from "../../../src/define-agent.ts";
import type { RunApi } from "../../../src/http/types.ts";
import { scriptedModel } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { askPerson } from "../../../src/tools/stock/ask-person.ts";
import { eventually } from "../../support/eventually.ts";
import { createTestHttp, json, type TestHttp } from "../../support/http.ts";

const pay = defineTool({
  name: "pay",
  description: 'Pays a bill. Example: {"amount":1}',
  parameters: z.object({ amount: z.number().describe("Euro") }),
  effect: "irreversible",
  execute: ({ amount }) => `paid ${amount}, password: hunter2hunter2`,
});

function makeAgents(): Agent[] {
  const greeter = scriptedModel([({ messages }) => `hello, ${messages.length} said so far`]);
  const payer = scriptedModel([{ toolCalls: [{ name: "pay", arguments: { amount: 7 } }] }, "done"]);
  const asker = scriptedModel([
    { toolCalls: [{ name: "ask_person", arguments: { question: "Where to?" } }] },
    ({ messages }) => `sent: ${JSON.stringify(messages.at(-1)?.content)}`,
  ]);
  const broken = { class: "permanent" as const, code: "bad_key", message: "no" };
  const failing = scriptedModel([{ fail: broken }]);
  const instructions = "Do it.";
  return [
    defineAgent({ name: "greeter", instructions, model: greeter }),
    defineAgent({ name: "payer", instructions, model: payer, tools: [pay] }),
    defineAgent({ name: "asker", instructions, model: asker, tools: [askPerson()] }),
    defineAgent({ name: "failing", instructions, model: failing }),
  ];
}

type Body = Record<string, unknown>;
const read = async (response: Response): Promise<Body> => (await response.json()) as Body;

/** Starts a run and waits for its end, or until it waits for somebody. */
async function run(http: TestHttp, body: Body): Promise<Body> {
  const { runId } = await read(await http.fetch("/runs", json(body)));
  return eventually(async () => {
    const view = await read(await http.fetch(`/runs/${String(runId)}`));
    return ["queued", "running"].includes(String(view.status)) ? undefined : view;
  });
}

describe("starting", () => {
  test("answers 201 with the place of a new run, 200 for the same again, 409 for another under its id", async () => {
    const http = await createTestHttp({ agents: makeAgents() });
    const body = { agent: "greeter", input: "hi", runId: "order-1", metadata: { customer: "acme" } };
    const first = await http.fetch("/runs", json(body));
    expect([first.status, first.headers.get("location")]).toEqual([201, "/runs/order-1"]);
    expect((await http.fetch("/runs", json(body))).status).toBe(200);
    const other = await http.fetch("/runs", json({ ...body, input: "something else" }));
    expect(other.status).toBe(409);
    expect(other.headers.get("content-type")).toBe("application/problem+json");
    expect(await read(other)).toMatchObject({ status: 409, code: "conflict", type: "about:blank" });
  });

  test("with an Idempotency-Key makes one run, and refuses the key for anything else with 422", async () => {
    const http = await createTestHttp({ agents: makeAgents() });
    const body = { agent: "greeter", input: "hi", metadata: { a: "1" } };
    const key = { "idempotency-key": '"8e03978e-40d5-43e8"' };
    const [one, two] = await Promise.all([
      http.fetch("/runs", json(body, key)),
      http.fetch("/runs", json(body, { "idempotency-key": "8e03978e-40d5-43e8" })),
    ]);
    expect([one.status, two.status].every((status) => status === 201 || status === 200)).toBe(true);
    const runId = (await read(one)).runId;
    expect((await read(two)).runId).toBe(runId);
    expect((await http.fetch("/runs", json(body, key))).status).toBe(200);
    for (const changed of [{ input: "ho" }, { metadata: { a: "2" } }, { priority: 3 }, { limits: { maxTurns: 2 } }]) {
      const refused = await http.fetch("/runs", json({ ...body, ...changed }, key));
      expect([refused.status, (await read(refused)).code]).toEqual([422, "conflict"]);
    }
    expect(await read(await http.fetch("/runs"))).toMatchObject({ runs: [{ runId }] });
  });

  test("a traceparent puts the run below the caller's trace; one that cannot be read counts as none", async () => {
    const http = await createTestHttp({ agents: makeAgents() });
    const traceId = "0af7651916cd43dd8448eb211c80319c";
    const body = { agent: "greeter", input: "hi" };
    const traced = await http.fetch("/runs", json(body, { traceparent: `00-${traceId}-b7ad6b7169203331-01` }));
    expect(await read(traced)).toMatchObject({ traceId });
    const broken = await http.fetch("/runs", json(body, { traceparent: "nonsense" }));
    expect([broken.status, (await read(broken)).traceId]).toEqual([201, expect.stringMatching(/^[0-9a-f]{32}$/)]);
  });

  test.each([
    [{}, ["body.agent", "body.input"]],
    [{ agent: "greeter", input: "" }, ["body.input"]],
    [{ agent: "greeter", input: "x", limits: { maxTurns: 0 } }, ["body.limits.maxTurns"]],
    [{ agent: "greeter", input: "x", runId: "42" }, ["body.runId"]],
    [{ agent: "greeter", input: "x", whenBusy: "inject" }, ["body.session"]],
    [{ agent: "greeter", input: "x", nonsense: 1 }, ["body"]],
  ])("refuses %j, naming each field", async (body, fields) => {
    const http = await createTestHttp({ agents: makeAgents() });
    const refused = await http.fetch("/runs", json(body));
    const { errors, code } = (await read(refused)) as { errors: { field: string }[]; code: string };
    expect([refused.status, code]).toEqual([400, "invalid"]);
    expect(errors.map(({ field }) => field)).toEqual(fields);
  });

  test("refuses what is no JSON, and what is too large, before anything is done", async () => {
    const http = await createTestHttp({ agents: makeAgents(), settings: { bodyLimitBytes: 1_000 } });
    const broken = await http.fetch("/runs", { ...json({}), body: "{" });
    expect(broken.status).toBe(400);
    expect(await read(broken)).toMatchObject({ code: "invalid", detail: expect.stringContaining("JSON") });
    const large = await http.fetch("/runs", json({ agent: "greeter", input: "x".repeat(2_000) }));
    expect([large.status, (await read(large)).code]).toEqual([413, "too_large"]);
    const endless = new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(500)) });
    const init = { ...json({}), body: endless, duplex: "half" } as RequestInit;
    expect((await http.fetch("/runs", init)).status).toBe(413);
    expect((await read(await http.fetch("/counts"))).queued).toBe(0);
  });
});

describe("reading", () => {
  test("lists by status, agent, session, metadata, time and part of the id, in pages", async () => {
    const http = await createTestHttp({ agents: makeAgents() });
    for (const [index, customer] of ["acme", "acme", "zeta"].entries()) {
      const place = index === 0 ? { session: "chat" } : {};
      await run(http, { agent: "greeter", input: "hi", runId: `o-${index}`, metadata: { customer }, ...place });
    }
    const ids = async (query: string): Promise<unknown[]> => {
      const page = (await read(await http.fetch(`/runs?${query}`))) as { runs: { runId: string }[] };
      return page.runs.map(({ runId }) => runId).sort();
    };
    expect(await ids("status=completed")).toEqual(["o-0", "o-1", "o-2"]);
    expect(await ids("metadata.customer=acme")).toEqual(["o-0", "o-1"]);
    expect(await ids("session=chat&agent=greeter")).toEqual(["o-0"]);
    expect(await ids("search=-2")).toEqual(["o-2"]);
    expect(await ids("until=1970-01-01T00:00:00Z")).toEqual([]);
    const first = await read(await http.fetch("/runs?limit=2"));
    const rest = await read(await http.fetch(`/runs?limit=2&cursor=${encodeURIComponent(String(first.cursor))}`));
    expect([(first.runs as Body[]).length, (rest.runs as Body[]).length, rest.cursor]).toEqual([2, 1, undefined]);
    expect(await read(await http.fetch("/counts?agent=greeter"))).toMatchObject({ completed: 3, failed: 0 });
  });

  test.each([
    ["/runs?staus=completed", "query.staus"],
    ["/runs?status=done", "query.status"],
    ["/runs?limit=0", "query.limit"],
    ["/runs?limit=1e3", "query.limit"],
    ["/runs?since=soon", "query.since"],
    ["/runs?limit=1&limit=2", "query.limit"],
    ["/runs/r-1/transcript?from=-1", "query.from"],
    ["/runs/r-1/result?waitMs=x", "query.waitMs"],
  ])("refuses %s", async (path, field) => {
    const http = await createTestHttp({ agents: makeAgents() });
    const refused = await http.fetch(path);
    expect(refused.status).toBe(400);
    expect(await read(refused)).toMatchObject({ errors: [{ field }] });
  });

  test("a bad cursor is 400, an unknown run, call, session and address are 404", async () => {
    const http = await createTestHttp({ agents: makeAgents() });
    expect((await http.fetch("/runs?cursor=nonsense")).status).toBe(400);
    const paths = ["/runs/none", "/runs/none/events", "/runs/none/transcript", "/runs/none/turns", "/runs/none/audit"];
    const more = ["/runs/none/result", "/sessions/none", "/sessions/none/transcript", "/nowhere", "/metrics"];
    for (const path of [...paths, ...more]) {
      const response = await http.fetch(path);
      expect([path, response.status, (await read(response)).code]).toEqual([path, 404, "not_found"]);
    }
  });

  test.each(["r-1:messages", "17", "r-1%0aX", "..%2fr-1", "%7Br-1%7D", "r%C3%A9", "x".repeat(129)])(
    "what cannot be a run's id, %s, is 404 on Redis too",
    async (id) => {
      const http = await createTestHttp({ agents: makeAgents(), redis: true });
      await http.fetch("/runs", json({ agent: "greeter", input: "hi", runId: "r-1" }));
      for (const [method, part] of [
        ["GET", ""],
        ["GET", "/events"],
        ["GET", "/transcript"],
        ["POST", "/cancel"],
        ["DELETE", ""],
      ] as const) {
        const response = await http.fetch(`/runs/${id}${part}`, { method });
        expect([method, part, response.status]).toEqual([method, part, 404]);
      }
    },
  );

  test("a result is waited for, and 202 when it does not come", async () => {
    const http = await createTestHttp({ agents: makeAgents() });
    await http.fetch("/runs", json({ agent: "greeter", input: "hi", runId: "r-1" }));
    const ended = await http.fetch("/runs/r-1/result?waitMs=5000");
    expect([ended.status, await read(ended)]).toEqual([
      200,
      expect.objectContaining({ status: "completed", output: "hello, 1 said so far" }),
    ]);
    await run(http, { agent: "asker", input: "send it", runId: "r-2" });
    const open = await http.fetch("/runs/r-2/result?waitMs=20");
    expect([open.status, (await read(open)).status]).toEqual([202, "waiting"]);
  });

  test("transcript, turns, audit and results of calls are in pages and without secrets", async () => {
    const http = await createTestHttp({ agents: makeAgents() });
    const { openCalls } = await run(http, { agent: "payer", input: "pay, my password: hunter2hunter2", runId: "r-1" });
    const [{ callId } = { callId: "" }] = openCalls as { callId: string }[];
    await http.fetch(`/runs/r-1/calls/${callId}/approve`, { method: "POST" });
    await http.fetch("/runs/r-1/result?waitMs=5000");
    const first = await read(await http.fetch("/runs/r-1/transcript?limit=3"));
    expect(first).toMatchObject({ from: 0, total: 4, next: 3 });
    const second = await read(await http.fetch("/runs/r-1/transcript?from=3&limit=3"));
    expect(second).toMatchObject({ total: 4, messages: [{ role: "assistant", content: "done" }] });
    expect(second.next).toBeUndefined();
    const piece = await read(await http.fetch(`/runs/r-1/calls/${callId}/result`));
    expect(piece).toMatchObject({ from: 0, text: expect.stringContaining("paid 7") });
    const middle = await read(await http.fetch(`/runs/r-1/calls/${callId}/result?from=18&length=10`));
    const turns = await read(await http.fetch("/runs/r-1/turns?limit=1&requests=false"));
    expect(turns).toMatchObject({ total: 2, turns: [{ turn: 1, calls: [{ tool: "pay" }] }] });
    const audit = await read(await http.fetch("/runs/r-1/audit"));
    expect((audit.entries as Body[]).map(({ action, by }) => `${String(action)} by ${String(by)}`)).toEqual([
      "started by local",
      "asked by drover",
      "approved by local",
    ]);
    expect(JSON.stringify([first, second, piece, middle, turns])).not.toMatch(/hunter2/);
  });

  test("a page of messages ends early when they are large", async () => {
    const http = await createTestHttp({ agents: makeAgents() });
    const input = Array.from({ length: 60 }, (_, index) => ({
      role: "user",
      content: `${index} ${"x".repeat(15_000)}`,
    }));
    for (let index = 0; index < 6; index += 1) await run(http, { agent: "greeter", input, session: "long" });
    const indexes: number[] = [];
    let from: number | undefined = 0;
    let pages = 0;
    while (from !== undefined) {
      const page = (await read(await http.fetch(`/sessions/long/transcript?limit=1000&from=${from}`))) as {
        messages: { content: string }[];
        next?: number;
      };
      indexes.push(...page.messages.map((_, index) => (from ?? 0) + index));
      from = page.next;
      pages += 1;
    }
    expect(pages).toBeGreaterThan(1);
    expect(indexes).toEqual(Array.from({ length: 6 * 61 }, (_, index) => index));
  });

  test("a session tells its runs and all that was said", async () => {
    const http = await createTestHttp({ agents: makeAgents() });
    await run(http, { agent: "greeter", input: "one", session: "chat" });
    await run(http, { agent: "greeter", input: "two", session: "chat" });
    expect(await read(await http.fetch("/sessions/chat"))).toMatchObject({ session: "chat", queued: [] });
    const page = await read(await http.fetch("/sessions/chat/transcript?from=2"));
    expect(page).toMatchObject({ total: 4, messages: [{ content: "two" }, { content: "hello, 3 said so far" }] });
  });
});

describe("commands", () => {
  test("what is no JSON is refused, and not taken for an empty body", async () => {
    const http = await createTestHttp({ agents: makeAgents() });
    const { openCalls } = await run(http, { agent: "payer", input: "pay", runId: "r-1" });
    const [call] = openCalls as { callId: string }[];
    const bound = JSON.stringify({ argumentsHash: "other" });
    const types = [{ "content-type": "application/x-www-form-urlencoded" }, { "content-type": "text/plain" }];
    for (const headers of types) {
      const init = { method: "POST", headers, body: bound };
      const refused = await http.fetch(`/runs/r-1/calls/${call?.callId}/approve`, init);
      expect([refused.status, (await read(refused)).code]).toEqual([415, "invalid"]);
    }
    expect(await read(await http.fetch("/runs/r-1"))).toMatchObject({ openCalls: [{ state: "approval" }] });
  });

  test("approve and deny are bound to what was asked, and once decided stay so", async () => {
    const http = await createTestHttp({ agents: makeAgents() });
    const { openCalls } = await run(http, { agent: "payer", input: "pay", runId: "r-1" });
    const [call] = openCalls as { callId: string; argumentsHash: string }[];
    const at = `/runs/r-1/calls/${call?.callId}`;
    expect((await http.fetch(`${at}/approve`, json({ argumentsHash: "other" }))).status).toBe(409);
    expect((await http.fetch(`${at}/approve`, json({ argumentsHash: call?.argumentsHash }))).status).toBe(200);
    expect((await http.fetch(`${at}/approve`, json({}))).status).toBe(200);
    expect((await http.fetch(`${at}/deny`, json({ reason: "no" }))).status).toBe(409);
    expect((await http.fetch(`${at}/refuse`, json({}))).status).toBe(404);
  });

  test("a question is answered with any JSON value", async () => {
    const http = await createTestHttp({ agents: makeAgents() });
    const { openCalls } = await run(http, { agent: "asker", input: "send it", runId: "r-1" });
    const [call] = openCalls as { callId: string }[];
    const at = `/runs/r-1/calls/${call?.callId}/answer`;
    expect((await http.fetch(at, json({}))).status).toBe(400);
    expect((await http.fetch(at, { method: "POST" })).status).toBe(400);
    const key = { "idempotency-key": "k-1" };
    expect((await http.fetch(at, json({ value: { street: "Elm" } }, key))).status).toBe(200);
    expect((await http.fetch(at, json({ value: { street: "Elm" } }, key))).status).toBe(200);
    const result = await read(await http.fetch("/runs/r-1/result?waitMs=5000"));
    expect(result.output).toContain("Elm");
  });

  test("cancel ends a run once and for all, retry is for what failed, delete for what ended", async () => {
    const http = await createTestHttp({ agents: makeAgents() });
    await run(http, { agent: "asker", input: "send it", runId: "r-1" });
    expect((await http.fetch("/runs/r-1", { method: "DELETE" })).status).toBe(409);
    const cancelled = await http.fetch("/runs/r-1/cancel", json({ reason: "changed my mind" }));
    expect(await read(cancelled)).toMatchObject({ status: "cancelled" });
    expect((await http.fetch("/runs/r-1/cancel", { method: "POST" })).status).toBe(200);
    expect((await http.fetch("/runs/r-1/retry", { method: "POST" })).status).toBe(409);
    expect((await http.fetch("/runs/r-1", { method: "DELETE" })).status).toBe(204);
    expect((await http.fetch("/runs/r-1")).status).toBe(404);
    expect(await run(http, { agent: "failing", input: "try", runId: "r-2" })).toMatchObject({ status: "failed" });
    expect((await http.fetch("/runs/r-2/retry", json({ limits: { maxTurns: 3 } }))).status).toBe(200);
  });

  test("the deletion of a run whose record was damaged says so", async () => {
    const gone = { damage: "its head is gone" };
    const http = await createTestHttp({
      agents: [],
      deps: { runs: { delete: async () => gone } as unknown as RunApi },
    });
    const response = await http.fetch("/runs/r-1", { method: "DELETE" });
    expect([response.status, await read(response)]).toEqual([200, gone]);
  });

  test("a retry that is sent again, after a lost reply say, is no second one", async () => {
    const http = await createTestHttp({ agents: makeAgents() });
    expect(await run(http, { agent: "failing", input: "try", runId: "r-1" })).toMatchObject({ status: "failed" });
    const retry = async (key: string): Promise<number> => {
      const { status } = await http.fetch("/runs/r-1/retry", json({}, { "idempotency-key": key }));
      await http.drover.get("r-1").result({ timeoutMs: 10_000 });
      return status;
    };
    expect([await retry("one"), await retry("one"), await retry("two")]).toEqual([200, 200, 200]);
    const { entries } = (await read(await http.fetch("/runs/r-1/audit"))) as { entries: { action: string }[] };
    expect(entries.filter(({ action }) => action === "retried")).toHaveLength(2);
  });

  test("input that is sent again enters once", async () => {
    const http = await createTestHttp({ agents: makeAgents() });
    await run(http, { agent: "asker", input: "send it", runId: "r-1" });
    const key = { "idempotency-key": "more-1" };
    for (const input of ["and soon", "and soon"]) {
      expect((await http.fetch("/runs/r-1/input", json({ input }, key))).status).toBe(200);
    }
    expect((await http.fetch("/runs/r-1/input", json({ input: { role: "user" } }))).status).toBe(400);
    const { entries } = (await read(await http.fetch("/runs/r-1/audit"))) as { entries: { action: string }[] };
    expect(entries.filter(({ action }) => action === "sent_input")).toHaveLength(1);
  });
});

describe("scopes", () => {
  const keys = {
    starter: { scopes: ["start" as const] },
    reader: { scopes: ["read" as const] },
    decider: { scopes: ["decide" as const] },
    boss: { scopes: ["admin" as const] },
    tenantBoss: { scopes: ["admin" as const], tenant: "acme" },
  };
  const doors: [string, string, string[]][] = [
    ["POST", "/runs", ["starter", "boss", "tenantBoss"]],
    ["POST", "/runs/x1/input", ["starter", "boss", "tenantBoss"]],
    ...[
      "/runs",
      "/runs/x1",
      "/runs/x1/events",
      "/runs/x1/transcript",
      "/runs/x1/turns",
      "/runs/x1/audit",
      "/counts",
    ].map((path): [string, string, string[]] => ["GET", path, ["reader", "boss", "tenantBoss"]]),
    ...["cancel", "retry", "calls/c/approve", "calls/c/deny", "calls/c/answer"].map(
      (name): [string, string, string[]] => ["POST", `/runs/x1/${name}`, ["decider", "boss", "tenantBoss"]],
    ),
    ["DELETE", "/runs/x1", ["boss", "tenantBoss"]],
    ["GET", "/fleet", ["boss"]],
    ["GET", "/metrics", ["reader", "boss"]],
  ];

  test.each(doors)("%s %s is for %j", async (method, path, allowed) => {
    const http = await createTestHttp({ agents: makeAgents(), keys });
    expect((await http.fetch(path, { method })).status).toBe(401);
    for (const name of Object.keys(keys)) {
      const response = await http.as(name)(path, { method });
      const passed = ![401, 403].includes(response.status);
      expect([name, passed]).toEqual([name, allowed.includes(name)]);
      if (!passed) expect(await read(response)).toMatchObject({ status: 403, code: "forbidden" });
    }
  });
});

describe("the service", () => {
  test("tells whether it lives and is ready without a key, and why not", async () => {
    let away = false;
    const ready = async (): Promise<void> => {
      if (away) throw new Error("connect ECONNREFUSED 10.0.0.1:6379");
    };
    const keys = { reader: { scopes: ["read" as const] } };
    const http = await createTestHttp({ agents: makeAgents(), keys, deps: { ready } });
    expect((await http.fetch("/healthz")).status).toBe(200);
    expect((await http.fetch("/readyz")).status).toBe(200);
    away = true;
    const unready = await http.fetch("/readyz");
    expect([unready.status, unready.headers.get("retry-after")]).toEqual([503, "2"]);
    const body = JSON.stringify(await unready.json());
    expect(body).toContain("Redis does not answer");
    expect(body).not.toContain("10.0.0.1");
    expect((await http.fetch("/openapi.json")).status).toBe(401);
  });

  test("gives out metrics while they are on", async () => {
    const http = await createTestHttp({ agents: makeAgents(), deps: { metrics: async () => "drover_runs 1\n" } });
    const response = await http.fetch("/metrics");
    expect([await response.text(), response.headers.get("content-type")]).toEqual([
      "drover_runs 1\n",
      "text/plain; version=0.0.4; charset=utf-8",
    ]);
  });

  test("a request that takes too long is answered 504, and a fault of ours without its stack", async () => {
    const never = { read: () => new Promise<never>(() => {}) };
    const slow = await createTestHttp({ agents: [], settings: { requestTimeoutMs: 50 }, deps: { fleet: never } });
    const late = await slow.fetch("/fleet");
    expect([late.status, (await read(late)).code]).toEqual([504, "timeout"]);
    const broken = { read: () => Promise.reject(new TypeError("secret inner workings")) };
    const http = await createTestHttp({ agents: [], deps: { fleet: broken } });
    const failed = await http.fetch("/fleet", { headers: { "x-request-id": "mine-1" } });
    expect([failed.status, failed.headers.get("x-request-id")]).toEqual([500, "mine-1"]);
    const text = await failed.text();
    expect(text).not.toMatch(/inner workings|TypeError|\.ts/);
    expect(JSON.parse(text)).toMatchObject({ code: "internal", requestId: "mine-1" });
  });
});
