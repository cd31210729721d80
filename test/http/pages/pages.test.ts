// The pages as they are served, without a script: what they say, and to whom.
import { describe, expect, test, vi } from "vitest";
import { DroverError } from "../../../src/core/errors.ts";
import { hostile, large } from "../../support/page-agents.ts";
import { html, open, read, start } from "./setup.ts";

describe("the list of runs", () => {
  test("shows runs with what they were asked, counts and filters", async () => {
    const http = await open();
    await start(http, ["run-a", "plain question about cats", "completed"], { metadata: { team: "red" } });
    await start(http, ["run-b", "pay them", "waiting"], { session: "s-1" });
    const all = await read(http, "/");
    expect(all).toContain('href="/ui/runs/run-a"');
    expect(all).toContain("plain question about cats");
    expect(all).toContain("Waits for a person&#39;s decision");
    expect(all).toMatch(/completed<\/span>\s*<span class="tab-count">1</);
    const red = await read(http, "/?metadata=team%3Dred");
    expect(red).toContain("run-a");
    expect(red).not.toContain('href="/ui/runs/run-b"');
    const found = await read(http, "/?id=n-b&status=waiting&session=s-1");
    expect(found).toContain('href="/ui/runs/run-b"');
    expect(found).toContain('name="id" value="n-b"');
    expect(await read(http, "/?agent=nobody")).toContain("No run fits.");
  });

  test("pages forward by cursor and back to the newest", async () => {
    const http = await open();
    for (let index = 0; index < 51; index += 1) {
      await http.drover.start("tester", "plain", { runId: `many-${String(index).padStart(2, "0")}` });
    }
    const first = await read(http, "/");
    expect(first).toContain("many-50");
    expect(first).not.toContain("many-00");
    const older = /<a href="([^"]+)" rel="next">/.exec(first)?.[1]?.replaceAll("&amp;", "&") ?? "";
    const second = await read(http, older);
    expect(second).toContain("many-00");
    expect(second).not.toContain("many-50");
    expect(second).toContain('rel="first">Newest');
  });

  test("tells which field could not be meant, and says how to begin where there is nothing", async () => {
    const http = await open();
    expect(await read(http, "/")).toContain("No runs yet.");
    expect(await read(http, "/?since=yesterday")).toContain("since: expected a time");
  });

  test("gives a script the part that changes, without the frame", async () => {
    const http = await open();
    await start(http, ["run-a", "pay", "waiting"]);
    const response = await http.fetch("/", { headers: { ...html, "x-fragment": "1" } });
    const text = await response.text();
    expect(text).not.toContain("<html");
    expect(text).toContain('id="row-run-a"');
    expect(response.headers.get("x-waiting")).toBe("1");
  });
});

describe("a run", () => {
  test("is told turn by turn with its answer, calls, times and audit", async () => {
    const http = await open({ settings: { traceUrl: "https://traces.example.org/{traceId}" } });
    await start(http, ["run-a", "hostile question", "completed"], { metadata: { team: "red" } });
    const page = await read(http, "/ui/runs/run-a");
    for (const part of [
      "Turn 1",
      "Turn 2",
      'class="tool">look',
      "fake",
      "<strong>test</strong> started",
      "team",
      "Timeline",
    ]) {
      if (part !== "fake") expect(page).toContain(part);
    }
    const { traceId } = await http.drover.get("run-a").status();
    expect(page).toContain(`https://traces.example.org/${traceId}`);
    expect(page).not.toContain("<script>window");
    expect(page).toContain("⟨U+202E⟩evil");
  });

  test("what the model saw at a turn is a page, and a part for a script", async () => {
    const http = await open();
    await start(http, ["run-a", "hostile question", "completed"]);
    const page = await read(http, "/ui/runs/run-a/turns/2");
    expect(page).toContain("Do as the first word says.");
    expect(page).toContain("result of <code>look</code>");
    expect(page).toContain("3 messages sent, 3 in the transcript then");
    const part = await http.fetch("/ui/runs/run-a/turns/2", { headers: { ...html, "x-fragment": "1" } });
    expect(await part.text()).toMatch(/^<div class="window"/);
    expect((await http.fetch("/ui/runs/run-a/turns/9", { headers: html })).status).toBe(404);
  });

  test("what the model saw with a definition that Redis has lost is no page, and it says why", async () => {
    const http = await open();
    await start(http, ["run-a", "hostile question", "completed"]);
    const handle = http.drover.get("run-a");
    const { turns, ...page } = await handle.turns();
    const without = { ...page, turns: turns.map((turn) => ({ ...turn, request: undefined })) };
    vi.spyOn(http.drover, "get").mockReturnValue({ ...handle, turns: async () => without });
    const told = await http.fetch("/ui/runs/run-a/turns/2", { headers: html });
    expect(told.status).toBe(404);
    expect(await told.text()).toContain("Redis has lost the definition");
  });

  test("a text of 1 MB is cut on the page, and whole as plain text behind a link", async () => {
    const http = await open();
    await start(http, ["run-a", "large", "completed"]);
    const page = await read(http, "/ui/runs/run-a");
    expect(page.length).toBeLessThan(40_000);
    const link = /<a href="(\/ui\/runs\/run-a\/turns\/1\/text\?what=result\.[^"]+)">/.exec(page)?.[1];
    const whole = await http.fetch(link ?? "", { headers: html });
    expect(whole.headers.get("content-type")).toBe("text/plain; charset=utf-8");
    expect(whole.headers.get("content-security-policy")).toContain("sandbox");
    expect(await whole.text()).toBe(large);
    const kept = await http.fetch("/ui/runs/run-a/turns/1/text?what=whole.call-1-1", { headers: html });
    expect(await kept.text()).toBe(large);
    const window = await read(http, "/ui/runs/run-a/turns/2");
    const sent = /<a href="([^"]+what=message[^"]+)">/.exec(window)?.[1];
    expect(await (await http.fetch(sent ?? "")).text()).toBe(large);
  });

  test("every text of a turn has an address", async () => {
    const http = await open();
    await start(http, ["run-a", "hostile question", "completed"]);
    const text = async (turn: number, what: string): Promise<string> =>
      (await http.fetch(`/ui/runs/run-a/turns/${turn}/text?what=${what}`)).text();
    expect(await text(1, "input.0")).toBe("hostile question");
    expect(await text(1, "arguments.call-1-1")).toBe('{"at":"hostile"}');
    expect(await text(2, "answer")).toBe(hostile);
    expect(await text(2, "instructions")).toBe("Do as the first word says.");
    expect(await text(2, "message.0")).toBe("hostile question");
    const none = await http.fetch("/ui/runs/run-a/turns/1/text?what=none.at.all");
    expect(none.status).toBe(404);
  });

  test("what the model saw is shown in pages too, each message with its own address", async () => {
    const http = await open();
    await start(http, ["run-a", "loop", "failed"], { limits: { maxTurns: 40 } });
    const first = await read(http, "/ui/runs/run-a/turns/40?from=1");
    expect(first).toContain("1 to 60 of 79");
    expect(first).toContain('href="/ui/runs/run-a/turns/40?from=61"');
    expect(first).toContain("seen 1<");
    const last = await read(http, "/ui/runs/run-a/turns/40");
    expect(last).toContain("20 to 79 of 79");
    expect(last).not.toContain("seen 1<");
    expect((await http.fetch("/ui/runs", { redirect: "manual" })).headers.get("location")).toBe("/");
  });

  test("turns are shown in pages, the last ones first", async () => {
    const http = await open();
    await start(http, ["run-a", "loop", "failed"], { limits: { maxTurns: 47 } });
    const last = await read(http, "/ui/runs/run-a");
    expect(last).toContain('id="turn-47"');
    expect(last).not.toContain('id="turn-20"');
    const earlier = await read(http, "/ui/runs/run-a?from=1");
    expect(earlier).toContain('id="turn-1"');
    expect(earlier).toContain('href="/ui/runs/run-a?from=21"');
    expect(await read(http, "/ui/runs/run-a?from=99")).toContain("It has 47 turns, none from here on.");
    expect(last).toContain("<strong>max_turns</strong>");
    expect(last).toContain("retry it with more turns");
    // A run that has ended takes no input: nothing is offered that would be refused.
    expect(last).toContain('action="/ui/runs/run-a/retry"');
    expect(last).not.toContain('action="/ui/runs/run-a/send"');
  });
});

describe("who may do what", () => {
  const keys = {
    reader: { scopes: ["read"] },
    decider: { scopes: ["read", "decide"] },
    other: { scopes: ["read"], tenant: "t-2" },
  } as const;
  const withKeys = Object.fromEntries(
    Object.entries(keys).map(([name, key]) => [name, { ...key, scopes: [...key.scopes] }]),
  );

  test("buttons are there for those who may use them, and the rest is refused", async () => {
    const http = await open({ keys: withKeys });
    await start(http, ["run-a", "pay", "waiting"]);
    const reader = await (await http.as("reader")("/ui/runs/run-a", { headers: html })).text();
    expect(reader).toContain("Your key may not decide.");
    expect(reader).not.toContain("<button");
    expect(reader).not.toContain('href="/ui/fleet"');
    const decider = await (await http.as("decider")("/ui/runs/run-a", { headers: html })).text();
    expect(decider).toContain('action="/ui/runs/run-a/cancel"');
    expect(decider).not.toContain('action="/ui/runs/run-a/send"');
    const refused = await http.as("reader")("/ui/runs/run-a/cancel", { method: "POST", headers: html });
    expect(refused.status).toBe(403);
    expect(await refused.text()).toContain("lacks the scope decide");
    expect((await http.as("decider")("/ui/fleet", { headers: html })).status).toBe(403);
    expect((await http.drover.get("run-a").status()).status).toBe("waiting");
  });

  test("another tenant's run is as good as none, on every page", async () => {
    const http = await open({ keys: withKeys });
    await start(http, ["run-a", "pay", "waiting"], { session: "s-1" });
    const other = http.as("other");
    for (const path of [
      "/ui/runs/run-a",
      "/ui/runs/run-a/turns/1",
      "/ui/runs/run-a/turns/1/text?what=input.0",
      "/ui/sessions/s-1",
      "/ui/sessions/s-1/text?message=0",
    ]) {
      const response = await other(path, { headers: html });
      expect([path, response.status]).toEqual([path, 404]);
      expect(await response.text()).not.toContain("for the cat");
    }
    expect(await (await other("/", { headers: html })).text()).not.toContain("run-a");
    expect(await (await other("/ui/approvals", { headers: html })).text()).toContain("Nothing waits for a person.");
  });
});

test("a tenant's key is told of no agent that only others use", async () => {
  const told = ["tester", "secret-project"].map((name) => ({ name, model: "m", tools: [], seenAt: 1 }));
  const presence = {
    tell: async () => {},
    leave: async () => {},
    workers: async () => [],
    agents: async () => told,
    forgetAgent: async () => {},
    gates: async () => [],
  };
  const http = await open({
    keys: { all: { scopes: ["read"] }, theirs: { scopes: ["read"], tenant: "t-2" } },
    deps: { presence },
  });
  await start(http, ["run-a", "plain", "completed"], { tenant: "t-2" });
  const [all, theirs] = [http.as("all"), http.as("theirs")];
  expect(await (await all("/", { headers: html })).text()).toContain("secret-project");
  const page = await (await theirs("/", { headers: html })).text();
  expect(page).toContain('<option value="tester">');
  expect(page).not.toContain("secret-project");
  expect(await (await all("/agents")).json()).toEqual({ agents: told });
  expect(await (await theirs("/agents")).json()).toEqual({ agents: told.slice(0, 1) });
});

describe("sessions, the fleet and what cannot be shown", () => {
  test("a session has its runs and its transcript", async () => {
    const http = await open();
    await start(http, ["run-a", "plain one", "completed"], { session: "s-1" });
    await start(http, ["run-b", "plain two", "completed"], { session: "s-1" });
    const page = await read(http, "/ui/sessions/s-1");
    for (const part of ["run-a", "run-b", "plain one", "plain two", "4 messages, shared"]) expect(page).toContain(part);
    expect(await (await http.fetch("/ui/sessions/s-1/text?message=2")).text()).toBe("plain two");
    expect((await http.fetch("/ui/sessions/none", { headers: html })).status).toBe(404);
    expect((await http.fetch("/ui/sessions/s-1/text?message=4", { headers: html })).status).toBe(404);
  });

  test("of a session only the messages that are shown are read", async () => {
    const http = await open();
    for (let index = 0; index < 30; index += 1) {
      await start(http, [`run-${index}`, `plain ${index}`, "completed"], { session: "s-1" });
    }
    const reading = vi.spyOn(http.store, "readMessages");
    const page = await read(http, "/ui/sessions/s-1?from=4");
    for (const part of ["plain 2", "5 to 54 of 60", "plain 26"]) expect(page).toContain(part);
    expect(page).not.toContain("plain 27");
    expect(Math.max(...reading.mock.calls.map(([, from, to]) => to - from))).toBe(50);
    expect(await read(http, "/ui/sessions/s-1?from=58")).toContain("59 to 60 of 60");
    expect(await read(http, "/ui/sessions/s-1?from=999")).toContain("60 messages");
  });

  test("the fleet is shown, with a way to the raw queues where they are served", async () => {
    const board = async (request: Request): Promise<Response> => new Response(new URL(request.url).pathname);
    const http = await open({ deps: { board } });
    expect(await read(http, "/ui/fleet")).toContain('href="/ui/queues"');
    expect(await (await http.fetch("/ui/queues/api/queues")).text()).toBe("/ui/queues/api/queues");
    const without = await open();
    expect(await read(without, "/ui/fleet")).not.toContain("/ui/queues");
    expect((await without.fetch("/ui/queues", { headers: html })).status).toBe(404);
  });

  test("pages of errors look the same and say what to do", async () => {
    const away = async (): Promise<never> => {
      throw new DroverError("queue_unavailable", "Redis does not answer. Check REDIS_URL.");
    };
    const http = await open();
    const missing = await http.fetch("/ui/runs/none", { headers: html });
    expect(missing.status).toBe(404);
    expect(await missing.text()).toMatch(/No run has the id[\s\S]*All runs/);
    const broken = await open({ deps: { presence: { ...http.deps.presence, agents: away } } });
    const response = await broken.fetch("/", { headers: html });
    expect(response.status).toBe(503);
    expect(await response.text()).toMatch(/Redis does not answer\.[\s\S]*drover doctor/);
  });

  test("secrets are left out wherever content is shown", async () => {
    const http = await open();
    const secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJ";
    await start(http, ["run-a", `plain ${secret}`, "completed"], { session: "s-1" });
    const paths = [
      "/",
      "/ui/runs/run-a",
      "/ui/runs/run-a/turns/1",
      "/ui/runs/run-a/turns/1/text?what=input.0",
      "/ui/sessions/s-1",
      "/ui/sessions/s-1/text?message=0",
    ];
    for (const path of paths) {
      const text = await (await http.fetch(path, { headers: html })).text();
      expect([path, text.includes("[redacted"), text.includes(secret)]).toEqual([path, true, false]);
    }
  });

  test("files are served by a path that changes with them, for a year, and nothing else is", async () => {
    const http = await open();
    const page = await read(http, "/");
    const paths = [...page.matchAll(/(?:href|src)="(\/assets\/[^"]+)"/g)].map(([, path = ""]) => path);
    expect(new Set(paths).size).toBe(3);
    for (const path of paths) {
      const response = await http.fetch(path);
      expect(response.status).toBe(200);
      expect(response.headers.get("cache-control")).toContain("immutable");
    }
    const scripts = paths.filter((path) => path.endsWith(".js"));
    for (const path of scripts) {
      const imported = (await (await http.fetch(path)).text()).matchAll(/from "([^"]+)"/g);
      for (const [, from = ""] of imported) {
        expect(from).toMatch(/^\/assets\/[a-z]+-[0-9a-f]{12}\.js$/);
        if (!scripts.includes(from)) scripts.push(from);
        expect((await http.fetch(from)).status).toBe(200);
      }
    }
    expect(scripts).toHaveLength(5);
    expect((await http.fetch("/assets/drover.css")).status).toBe(404);
    expect((await http.fetch("/assets/..%2f..%2fpages.ts")).status).toBe(404);
  });
});
