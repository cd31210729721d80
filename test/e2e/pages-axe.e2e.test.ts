// Every page by axe, in light and dark, wide and narrow; and that none of them scrolls sideways.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults } from "axe-core";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Listening, listen } from "../../src/server/listen.ts";
import { openPage } from "../support/browser.ts";
import { launchBrowser } from "../support/chromium.ts";
import { openScene, type Scene } from "../support/scene.ts";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let browser: Browser;
let scene: Scene;
let site: Listening;
beforeAll(async () => {
  browser = await launchBrowser();
  scene = await openScene({ board: async () => new Response("the board") });
  site = await listen(scene.fetch, scene.deps.settings, { port: 0 });
});
afterAll(async () => {
  await browser?.close();
  await site?.close(0);
});

const pages: Record<string, string> = {
  runs: "/",
  "no run fits": "/?agent=nobody&since=soon",
  "a run": "/ui/runs/brief-redis-streams",
  "a long run": "/ui/runs/archive-1998",
  "a live run": "/ui/runs/brief-aof",
  "a run that asks": "/ui/runs/ticket-88240",
  "what the model saw": "/ui/runs/archive-1998/turns/40",
  approvals: "/ui/approvals",
  fleet: "/ui/fleet",
  session: "/ui/sessions/customer-4711",
  "nothing there": "/ui/runs/none",
  "sign-in": "/login",
};

test.each(Object.entries(pages))("%s", async (name, path) => {
  const { page, trouble } = await openPage(browser, { colorScheme: "light" });
  await page.goto(site.url + path);
  await page.evaluate("for (const one of document.querySelectorAll('details:not([data-load])')) one.open = true");
  const fetched = page.locator("details[data-load]").last();
  if ((await fetched.count()) > 0) {
    await fetched.locator("summary").first().click();
    await fetched.locator(".window").waitFor();
  }
  if (name === "a live run") await page.locator("#live").waitFor();
  await page.evaluate(axe);
  const examine = async (options: object): Promise<number> => {
    const { violations, passes } = (await page.evaluate(`axe.run(${JSON.stringify(options)})`)) as AxeResults;
    const told = violations.map(({ id, impact, nodes }) => ({
      id,
      impact,
      at: nodes.map(({ target }) => target.join(" ")),
    }));
    expect(told.filter(({ impact }) => impact === "serious" || impact === "critical")).toEqual([]);
    return passes.length;
  };
  expect(await examine({})).toBeGreaterThan(10);
  // In the dark only colours are others.
  await page.emulateMedia({ colorScheme: "dark" });
  expect(await examine({ runOnly: ["color-contrast"] })).toBe(1);
  for (const width of [360, 1024, 1600]) {
    await page.setViewportSize({ width, height: 900 });
    expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBeLessThanOrEqual(0);
  }
  expect(trouble.filter((text) => !(name === "nothing there" && text.includes("404")))).toEqual([]);
});
