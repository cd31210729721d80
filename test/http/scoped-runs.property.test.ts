// Catches: a way for one tenant to learn of another's run, to touch it, or to get into its session.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DroverError } from "../../src/core/errors.ts";
import { defineAgent } from "../../src/define-agent.ts";
import type { RunHandle } from "../../src/engine/run-handle.ts";
import { runsFor } from "../../src/http/scoped-runs.ts";
import { fromTenantSession, toTenantSession } from "../../src/http/tenant-sessions.ts";
import type { Caller } from "../../src/http/types.ts";
import { scopes } from "../../src/ports-operators.ts";
import { scriptedModel } from "../../src/testing/scripted-model.ts";
import { createTestHttp, json, type TestHttp } from "../support/http.ts";

const callerOf = (tenant?: string): Caller => ({ name: tenant ?? "all", scopes: new Set(scopes), tenant });

const makeAgent = (): ReturnType<typeof defineAgent> =>
  defineAgent({
    name: "echo",
    instructions: "Echo.",
    model: scriptedModel([({ messages }) => messages.map(({ content }) => JSON.stringify(content)).join(" | ")]),
  });

/** A run that all have ended, of one tenant or of none. */
async function startRun(http: TestHttp, tenant: string | undefined, runId: string, session?: string): Promise<void> {
  const run = await runsFor(http.deps.runs, callerOf(tenant)).start("echo", `secret of ${runId}`, { runId, session });
  await run.result({ timeoutMs: 5_000 });
}

/** What a method does with an id: what it gives, or its error in words with the id taken out. */
async function outcomeOf(handle: RunHandle, method: string, args: unknown[]): Promise<unknown> {
  const call = (handle as unknown as Record<string, (...given: unknown[]) => unknown>)[method];
  try {
    const given = call?.(...args);
    if (method === "events") {
      const first = await (given as AsyncGenerator<unknown>).next();
      return { first };
    }
    return { given: await given };
  } catch (error) {
    if (!(error instanceof DroverError)) throw error;
    return { code: error.code, message: error.message.replaceAll(handle.id, "ID") };
  }
}

describe("another tenant's run", () => {
  test("is as good as none, whatever is asked of it, and stays as it is", async () => {
    const http = await createTestHttp({ agents: [makeAgent()] });
    for (const [tenant, runId] of [
      ["acme", "a-1"],
      [undefined, "n-1"],
    ] as const)
      await startRun(http, tenant, runId);
    const own = runsFor(http.deps.runs, callerOf("zeta"));
    const methods = Object.entries(own.get("a-1")).flatMap(([name, member]) =>
      typeof member === "function" ? [name] : [],
    );
    expect(methods).toContain("turns");
    const before = [await http.drover.get("a-1").status(), await http.drover.get("n-1").status()];
    const argument = fc.oneof(
      fc.constant("call-1-1"),
      fc.record({ after: fc.constantFrom(0, "1", "nonsense") }),
      fc.record({ timeoutMs: fc.constant(1), by: fc.constant("mallory"), session: fc.boolean() }),
      fc.constant(undefined),
      fc.string(),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...methods),
        fc.array(argument, { maxLength: 3 }),
        fc.constantFrom("a-1", "n-1"),
        async (method, args, runId) => {
          const foreign = await outcomeOf(own.get(runId), method, args);
          expect(foreign).toEqual(await outcomeOf(own.get("nowhere"), method, args));
          expect(foreign).toMatchObject({ code: "not_found" });
        },
      ),
      { numRuns: 300 },
    );
    await expect(own.delete("a-1")).rejects.toMatchObject({ code: "not_found" });
    await expect(own.start("echo", "secret of a-1", { runId: "a-1" })).rejects.toMatchObject({ code: "conflict" });
    expect([await http.drover.get("a-1").status(), await http.drover.get("n-1").status()]).toEqual(before);
  });

  test("is in no list and no count", async () => {
    const http = await createTestHttp({ agents: [makeAgent()] });
    const rows = [
      ["acme", "a-1"],
      ["acme", "a-2"],
      ["zeta", "z-1"],
      [undefined, "n-1"],
    ] as const;
    for (const [tenant, runId] of rows) await startRun(http, tenant, runId, "chat");
    const seen = async (tenant?: string): Promise<unknown> => {
      const runs = runsFor(http.deps.runs, callerOf(tenant));
      const ids = (await runs.list()).runs.map(({ runId }) => runId).sort();
      const inSession = (await runs.list({ session: "chat", tenant: "acme" })).runs.map(({ runId }) => runId).sort();
      return { ids, inSession, completed: (await runs.count({ tenant: "acme" })).completed };
    };
    expect(await seen("acme")).toEqual({ ids: ["a-1", "a-2"], inSession: ["a-1", "a-2"], completed: 2 });
    expect(await seen("zeta")).toEqual({ ids: ["z-1"], inSession: ["z-1"], completed: 1 });
  });
});

describe("sessions of one name", () => {
  test("are one for each tenant, by the name that its callers gave", async () => {
    const http = await createTestHttp({ agents: [makeAgent()] });
    for (const [tenant, runId] of [
      ["acme", "a-1"],
      ["zeta", "z-1"],
      [undefined, "n-1"],
    ] as const) {
      await startRun(http, tenant, runId, "chat");
    }
    for (const [tenant, runId] of [
      ["acme", "a-1"],
      ["zeta", "z-1"],
      [undefined, "n-1"],
    ] as const) {
      const runs = runsFor(http.deps.runs, callerOf(tenant));
      const said = JSON.stringify(await runs.session("chat").transcript());
      expect(said).toContain(`secret of ${runId}`);
      expect(said.match(/secret of/g)).toHaveLength(2);
      expect((await runs.get(runId).status()).session).toBe("chat");
    }
  });

  test("of a program that named it for all: a tenant sees its own part alone", async () => {
    const http = await createTestHttp({ agents: [makeAgent()] });
    for (const [tenant, runId] of [
      ["acme", "a-1"],
      ["zeta", "z-1"],
    ] as const) {
      const run = await http.drover.start("echo", `secret of ${runId}`, { runId, tenant, session: "shared" });
      await run.result({ timeoutMs: 5_000 });
    }
    const run = runsFor(http.deps.runs, callerOf("zeta")).get("z-1");
    expect((await run.status()).session).toBeUndefined();
    expect(JSON.stringify((await run.transcript({ session: true }))[0])).not.toContain("a-1");
    expect(await run.transcript({ session: true })).toHaveLength(2);
    expect((await run.turns()).turns[0]?.request?.messages).toBeUndefined();
  });

  test("no two tenants' names make the same session, and each is found again", () => {
    const name = fc.stringMatching(/^[A-Za-z0-9._-]{0,20}[A-Za-z][A-Za-z0-9._-]{0,20}$/);
    fc.assert(
      fc.property(name, name, name, name, (tenant, session, tenant2, session2) => {
        const id = toTenantSession(tenant, session);
        expect(fromTenantSession(tenant, id)).toBe(session);
        if (tenant !== tenant2) expect(fromTenantSession(tenant2, id)).toBeUndefined();
        if (tenant !== tenant2 || session !== session2) expect(toTenantSession(tenant2, session2)).not.toBe(id);
      }),
    );
    expect(() => toTenantSession("acme", "1")).toThrow(/letter/);
    expect(() => toTenantSession("acme", "x".repeat(125))).toThrow(/at most 120 characters/);
  });
});

test("over HTTP: the key says whose a run is, and who did what", async () => {
  const keys = {
    ann: { scopes: ["start" as const, "read" as const, "decide" as const], tenant: "acme" },
    zoe: { scopes: ["admin" as const], tenant: "zeta" },
  };
  const http = await createTestHttp({ agents: [makeAgent()], keys });
  const key = { "idempotency-key": "same-key" };
  const start = json({ agent: "echo", input: "hi" }, key);
  const [a, z] = await Promise.all([http.as("ann")("/runs", start), http.as("zoe")("/runs", start)]);
  const [mine, other] = (await Promise.all([a.json(), z.json()])) as { runId: string; tenant: string }[];
  expect([mine?.tenant, other?.tenant]).toEqual(["acme", "zeta"]);
  expect(mine?.runId).not.toBe(other?.runId);
  const taken = await http.as("zoe")("/runs", json({ agent: "echo", input: "hi", runId: mine?.runId }));
  expect(taken.status).toBe(409);
  for (const part of ["", "/events", "/transcript", "/turns", "/audit", "/result", "/calls/call-1-1/result"]) {
    expect((await http.as("zoe")(`/runs/${mine?.runId}${part}`)).status).toBe(404);
  }
  const audit = await (await http.as("ann")(`/runs/${mine?.runId}/audit`)).json();
  expect(audit).toMatchObject({ entries: [{ by: "ann", action: "started" }] });
});
