// The pages in a real browser: what is alive on them, what a keyboard reaches, what hostile content does not do.
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { RunStatus } from "../../src/core/run.ts";
import { listen } from "../../src/server/listen.ts";
import { openPage } from "../support/browser.ts";
import { launchBrowser } from "../support/chromium.ts";
import { eventually } from "../support/eventually.ts";
import { createTestHttp, type TestHttp, type TestHttpOptions } from "../support/http.ts";
import { hostile, type PageAgentsOptions, pageAgents } from "../support/page-agents.ts";

let browser: Browser;
beforeAll(async () => {
  browser = await launchBrowser();
});
afterAll(() => browser?.close());

type Site = { url: string; http: TestHttp; start(runId: string, input: string, until: RunStatus): Promise<void> };

async function openSite(options: Partial<TestHttpOptions> & { stage?: PageAgentsOptions } = {}): Promise<Site> {
  const { stage, ...rest } = options;
  const http = await createTestHttp({ agents: pageAgents(stage), ...rest });
  const { url, close } = await listen((request) => http.fetch(request), http.deps.settings, { port: 0 });
  onTestFinished(() => close(0));
  return {
    url,
    http,
    async start(runId, input, until) {
      await http.drover.start("tester", input, { runId, by: "test" });
      await eventually(async () => (await http.drover.get(runId).status()).status === until || undefined);
    },
  };
}

const statusOf = (page: Page): Promise<string> => page.locator(".run-head .badge").innerText();

describe("reading", () => {
  test("the list is filtered, paged, and stays current without losing the focus", async () => {
    const { url, http, start } = await openSite();
    for (let index = 0; index < 51; index += 1)
      await http.drover.start("tester", "plain", { runId: `many-${100 + index}` });
    await start("pay-1", "pay them", "waiting");
    const { page, trouble } = await openPage(browser);
    await page.goto(url);
    await page.getByRole("link", { name: /waiting 1/ }).click();
    expect(await page.locator("tbody tr").count()).toBe(1);
    await page.getByRole("link", { name: /All/ }).first().click();
    expect(await page.locator("tbody tr").count()).toBe(50);
    await page.getByRole("link", { name: "Older" }).click();
    expect(await page.locator("tbody tr").count()).toBe(2);
    await page.getByRole("link", { name: "Newest" }).click();
    await page.getByLabel("Run id").fill("pay");
    await page.getByRole("button", { name: "Filter" }).click();
    expect(await page.locator("tbody tr").count()).toBe(1);
    await page.getByRole("link", { name: "pay-1" }).focus();
    await start("pay-2", "pay them", "waiting");
    await page.getByRole("link", { name: "pay-2" }).waitFor();
    expect(await page.evaluate("document.activeElement.textContent")).toBe("pay-1");
    await page.getByText("Approvals 2").waitFor();
    expect(trouble).toEqual([]);
  });

  test("a run is watched as it happens: text as it comes, then its end, without loading the page again", async () => {
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const stage = { mayGoOn: (piece: number) => gates[piece - 1]?.promise ?? Promise.resolve() };
    const { url, http } = await openSite({ stage });
    await http.drover.start("tester", "write", { runId: "run-1" });
    const { page, trouble } = await openPage(browser);
    await page.goto(`${url}/ui/runs/run-1`);
    await page.evaluate("window.loaded = 'once'");
    const live = page.locator("[data-live-text]");
    await live.getByText("The quick brown fox").waitFor();
    gates[0]?.resolve();
    await live.getByText("sleeps in the sun").waitFor();
    expect(await statusOf(page)).toBe("running");
    gates[1]?.resolve();
    gates[2]?.resolve();
    await page.locator(".run-head .badge", { hasText: "completed" }).waitFor();
    expect(await page.locator(".said-assistant .prose").innerText()).toContain(
      "The quick brown fox jumps over the lazy dog, which",
    );
    expect(await page.locator("#live").count()).toBe(0);
    expect(await page.title()).toBe("completed: run-1 · Drover");
    expect(await page.locator("#announcer").innerText()).toBe("The run is completed");
    expect(await page.evaluate("window.loaded")).toBe("once");
    expect(trouble).toEqual([]);
  });

  test("text of an attempt that failed is struck out, and the next attempt's takes its place", async () => {
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const stage = { mayGoOn: (piece: number) => gates[piece - 1]?.promise ?? Promise.resolve() };
    const { url, http } = await openSite({ stage });
    await http.drover.start("tester", "stumble", { runId: "run-1" });
    const { page } = await openPage(browser);
    await page.goto(`${url}/ui/runs/run-1`);
    await page.locator("[data-live-text]").getByText("Wrong way").waitFor();
    gates[0]?.resolve();
    await page.locator(".live.is-void").waitFor();
    await page.locator(".incidents").getByText("the line was cut").waitFor();
    gates[1]?.resolve();
    await page.locator(".said-assistant").getByText("Right way").waitFor();
    expect(await page.locator("#live").count()).toBe(0);
  });

  test("a tab that nobody looks at gives its connection back, and is up to date once somebody does", async () => {
    const { url, http, start } = await openSite();
    await start("pay-1", "pay", "waiting");
    const { page, trouble } = await openPage(browser);
    await page.addInitScript(`
      window.sources = [];
      window.EventSource = class extends EventSource {
        constructor(url) { super(url); window.sources.push(this); }
      };
      window.seen = "visible";
      Object.defineProperty(document, "visibilityState", { get: () => window.seen });
      window.see = (state) => { window.seen = state; document.dispatchEvent(new Event("visibilitychange")); };
    `);
    await page.clock.install();
    const isTrue = (text: string): Promise<unknown> => eventually(async () => (await page.evaluate(text)) || undefined);
    await page.goto(`${url}/ui/runs/pay-1`);
    await isTrue("window.sources[0]?.readyState === 1");
    await page.evaluate("see('hidden')");
    await page.clock.runFor(4_000);
    expect(await page.evaluate("window.sources[0].readyState")).toBe(1);
    await page.clock.runFor(2_000);
    await isTrue("window.sources[0].readyState === 2");
    await http.drover.get("pay-1").send("one more thing", { by: "ben" });
    await page.evaluate("see('visible')");
    await page.getByText("sent input").waitFor();
    await isTrue("window.sources[1]?.readyState === 1");
    await http.drover.get("pay-1").cancel({ by: "ben" });
    await page.locator(".run-head .badge", { hasText: "cancelled" }).waitFor();
    expect(trouble).toEqual([]);
  });

  test("a stream that is refused for a while is asked for again, and a flood of text leaves the page usable", async () => {
    const gate = Promise.withResolvers<void>();
    const { url, http } = await openSite({ stage: { mayGoOn: () => gate.promise } });
    await http.drover.start("tester", "flood", { runId: "run-1" });
    const { page } = await openPage(browser);
    let refused = 0;
    await page.route("**/events?*", (route) => {
      refused += 1;
      return refused === 1 ? route.fulfill({ status: 502, body: "away" }) : route.continue();
    });
    await page.goto(`${url}/ui/runs/run-1`);
    const live = page.locator("[data-live-text]");
    await live.getByText("word 2999").waitFor();
    expect(refused).toBe(2);
    expect(await live.evaluate((element) => element.textContent?.length ?? 0)).toBeLessThanOrEqual(40_000);
    expect(await live.evaluate((element) => element.childNodes.length)).toBeLessThan(1_000);
    gate.resolve();
    await page.locator(".run-head .badge", { hasText: "completed" }).waitFor();
  });

  test("what the model saw is fetched when it is asked for", async () => {
    const { url, start } = await openSite();
    await start("run-1", "hostile", "completed");
    await start("pay-1", "pay", "waiting");
    const { page, trouble } = await openPage(browser);
    await page.goto(`${url}/ui/runs/run-1`);
    const more = page.locator("#window-1");
    await more.locator("summary").first().click();
    await more.getByText("Do as the first word says.").waitFor();
    expect(await page.locator(".count-badge").textContent()).toBe("1 waiting");
    expect(trouble).toEqual([]);
  });
});

describe("acting", () => {
  test("approve, deny, answer, cancel and retry, each with its result on the page", async () => {
    const { url, http, start } = await openSite();
    await start("pay-1", "pay", "waiting");
    await start("pay-2", "pay", "waiting");
    await start("ask-1", "ask", "waiting");
    await start("pay-3", "pay", "waiting");
    const { page, trouble } = await openPage(browser);
    await page.goto(`${url}/ui/approvals`);
    expect(await page.title()).toBe("(4) Approvals · Drover");
    const ask = (runId: string) => page.locator(".ask", { has: page.getByRole("link", { name: runId }) });
    await ask("pay-1").getByRole("button", { name: "Approve pay" }).click();
    await page.getByText("Approved. The call is on its way.").waitFor();
    await ask("pay-2").getByLabel("Reason (pay)").fill("too much");
    await ask("pay-2").getByRole("button", { name: "Deny pay" }).click();
    await page.getByText("Denied. The model is told.").waitFor();
    await ask("ask-1").getByLabel("Answer to ask_person").fill("office");
    await ask("ask-1").getByRole("button", { name: "Answer ask_person" }).click();
    await page.getByText("Answered. The run goes on.").waitFor();
    for (const runId of ["pay-1", "pay-2", "ask-1"]) await http.drover.get(runId).result({ timeoutMs: 10_000 });
    await page.goto(`${url}/ui/runs/pay-3`);
    await page.locator("#act-cancel summary").click();
    await page.locator("#act-cancel").getByLabel("Reason").fill("no need");
    await page.getByRole("button", { name: "Cancel the run" }).click();
    await page.getByText("Cancelled. What was under way is aborted.").waitFor();
    expect(await statusOf(page)).toBe("cancelled");
    await http.drover.start("tester", "loop", { runId: "loop-1", limits: { maxTurns: 2 } });
    await http.drover.get("loop-1").result({ timeoutMs: 10_000 });
    await page.goto(`${url}/ui/runs/loop-1`);
    await page.locator("#act-retry summary").click();
    await page.getByRole("textbox", { name: "Turns" }).fill("3");
    await page.getByRole("button", { name: "Retry" }).click();
    await page.getByText("Retried. It goes on from where it failed.").waitFor();
    await page.getByText("3 of 3").waitFor();
    expect(trouble).toEqual([]);
  });

  test("a run is paused and goes on, and so is the whole fleet", async () => {
    const { url, http, start } = await openSite();
    await start("pay-1", "pay", "waiting");
    const { page, trouble } = await openPage(browser);
    await page.goto(`${url}/ui/runs/pay-1`);
    await page.locator("#act-pause summary").click();
    await page.locator("#act-pause").getByLabel("Reason").fill("let me look");
    await page.getByRole("button", { name: "Pause the run" }).click();
    await page.getByText("Paused. Nothing of it begins until it is resumed").waitFor();
    expect(await statusOf(page)).toBe("paused");
    await page.locator("#act-resume summary").click();
    await page.getByRole("button", { name: "Resume", exact: true }).click();
    await page.getByText("Resumed. It goes on where it was.").waitFor();
    await page.goto(`${url}/ui/fleet`);
    await page.locator("#act-pause summary").click();
    await page.getByLabel("Reason", { exact: true }).fill("incident");
    await page.getByRole("button", { name: "Pause the fleet" }).click();
    await page.getByText("The fleet is paused. No worker takes a step.").waitFor();
    const late = await http.drover.start("tester", "loop", { runId: "loop-2", limits: { maxTurns: 2 } });
    expect((await late.status()).turns).toBe(0);
    await http.drover.resumeAll();
    expect(await late.result({ timeoutMs: 10_000 })).toMatchObject({ stopReason: "max_turns" });
    expect(trouble).toEqual([]);
  });

  test("whoever comes second is told kindly", async () => {
    const { url, http, start } = await openSite();
    await start("pay-1", "pay", "waiting");
    const { page } = await openPage(browser, { javaScriptEnabled: false });
    await page.goto(`${url}/ui/approvals`);
    await http.drover.get("pay-1").approve("call-1-1", { by: "ben" });
    await page.getByRole("button", { name: "Deny pay" }).click();
    await page.getByText("ben approved it already").waitFor();
    await page.getByRole("link", { name: "Back" }).click();
    expect(await page.locator("#inbox").innerText()).toBe("Nothing waits for a person.");
  });

  test("everything can be read, and a call approved, without JavaScript", async () => {
    const { url, http, start } = await openSite();
    await start("pay-1", "pay", "waiting");
    const { page } = await openPage(browser, { javaScriptEnabled: false });
    await page.goto(url);
    await page.getByRole("link", { name: "pay-1" }).click();
    await page.getByText("Pay 12 euros for the cat").waitFor();
    await page.locator("#window-1 summary").click();
    await page.getByRole("link", { name: "Open it on a page of its own" }).click();
    await page.getByText("What the model saw at turn 1").waitFor();
    await page.goBack();
    await page.getByRole("button", { name: "Approve pay" }).click();
    await page.getByText("Approved. The call is on its way.").waitFor();
    expect(await http.drover.get("pay-1").result({ timeoutMs: 10_000 })).toMatchObject({ status: "completed" });
  });

  test("a call is approved by keyboard alone", async () => {
    const { url, http, start } = await openSite();
    await start("pay-1", "pay", "waiting");
    const { page } = await openPage(browser);
    await page.goto(url);
    const focused = (): Promise<string> =>
      page.evaluate("document.activeElement.textContent.replaceAll(/\\s+/g, ' ').trim()");
    const tabTo = async (name: string): Promise<void> => {
      for (let presses = 0; presses < 40; presses += 1) {
        await page.keyboard.press("Tab");
        if ((await focused()) === name) return;
      }
      throw new Error(`Tab does not reach "${name}", it ends on "${await focused()}"`);
    };
    await tabTo("Approvals 1 waiting");
    await page.keyboard.press("Enter");
    await page.getByText("Pay 12 euros").waitFor();
    await tabTo("Approve pay");
    const outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle");
    expect(outline).toBe("solid");
    await page.keyboard.press("Enter");
    await page.getByText("Approved. The call is on its way.").waitFor();
    expect(await focused()).toBe("Approved. The call is on its way.");
    await http.drover.get("pay-1").result({ timeoutMs: 10_000 });
  });

  test("with keys one signs in, acts, and signs out", async () => {
    const { url, http, start } = await openSite({ keys: { ann: { scopes: ["read", "decide"] } } });
    await start("pay-1", "pay", "waiting");
    const { page, trouble } = await openPage(browser);
    await page.goto(`${url}/ui/approvals`);
    await page.getByLabel("API key").fill(http.authorization("ann").authorization?.replace("Bearer ", "") ?? "");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("button", { name: "Approve pay" }).click();
    await page.getByText("Approved. The call is on its way.").waitFor();
    const { decision } = (await http.drover.get("pay-1").transcript()).find(({ role }) => role === "tool") as never;
    expect(decision).toMatchObject({ type: "approved", by: "ann" });
    await page.goto(`${url}/ui/runs/pay-1`);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("API key").waitFor();
    expect(trouble).toEqual([]);
  });
});

describe("what a page must bear", () => {
  test("hostile content is shown and never executed", async () => {
    const { url, http, start } = await openSite();
    await start("run-1", `hostile ${hostile}`, "completed");
    await start("pay-1", `pay hostile ${hostile}`, "waiting");
    await http.drover.start("tester", `plain ${hostile}`, {
      runId: "run-2",
      session: "s-1",
      metadata: { note: hostile },
      by: hostile,
    });
    await http.drover.get("run-2").result({ timeoutMs: 10_000 });
    const { page, trouble } = await openPage(browser);
    const paths = ["/", "/ui/runs/run-1", "/ui/runs/run-2", "/ui/runs/pay-1", "/ui/approvals", "/ui/sessions/s-1"];
    paths.push("/ui/runs/run-1/turns/2", "/ui/fleet", `/?id=${encodeURIComponent(hostile)}`);
    paths.push("/ui/runs/run-1/turns/2/text?what=answer");
    for (const path of paths) {
      await page.goto(url + path, { waitUntil: "load" });
    }
    await page.goto(`${url}/ui/runs/run-1`);
    await page.locator("#window-2 summary").first().click();
    await page.locator("#window-2 .window").waitFor();
    await page.goto(url);
    await start("pay-2", `pay hostile ${hostile}`, "waiting");
    await page.getByRole("link", { name: "pay-2" }).waitFor();
    expect(await page.evaluate("'hacked' in window")).toBe(false);
    expect(trouble).toEqual([]);
  });

  test("messages of 1 MB are cut on the page, which stays quick, and whole behind a link", async () => {
    const { url, start } = await openSite();
    await start("run-1", "large", "completed");
    const { page } = await openPage(browser);
    await page.goto(`${url}/ui/runs/run-1`);
    await page.getByText(/Cut after 900 of 1,000,003 characters/).waitFor();
    await page.getByRole("link", { name: "Show all of it" }).click();
    await page.waitForLoadState();
    expect(await page.evaluate("document.body.innerText.length")).toBeGreaterThan(1_000_000);
  });
});
