// How long the pages of a long run take. In a file of its own, since nothing else may run meanwhile.
import { expect, onTestFinished, test } from "vitest";
import { listen } from "../../src/server/listen.ts";
import { openPage } from "../support/browser.ts";
import { launchBrowser } from "../support/chromium.ts";
import { createTestHttp } from "../support/http.ts";
import { pageAgents } from "../support/page-agents.ts";

test("a run of 1,000 turns, and what the model saw at the last of them, answer in under 300 ms and are paged through", async () => {
  const http = await createTestHttp({ agents: pageAgents(), redis: true });
  await http.drover.start("tester", "loop", { runId: "run-1", limits: { maxTurns: 1_000 } });
  await http.drover.get("run-1").result({ timeoutMs: 110_000 });
  for (const path of ["/ui/runs/run-1", "/ui/runs/run-1/turns/1000"]) {
    const times: number[] = [];
    for (let time = 0; time < 8; time += 1) {
      const begun = performance.now();
      const response = await http.fetch(path, { headers: { accept: "text/html" } });
      expect((await response.text()).length).toBeLessThan(300_000);
      times.push(performance.now() - begun);
    }
    expect(Math.min(...times)).toBeLessThan(300);
  }
  const site = await listen((request) => http.fetch(request), http.deps.settings, { port: 0 });
  const browser = await launchBrowser();
  onTestFinished(async () => {
    await browser.close();
    await site.close(0);
  });
  const { page } = await openPage(browser);
  await page.goto(`${site.url}/ui/runs/run-1`);
  await page.locator("#turn-1000").waitFor();
  await page.getByRole("link", { name: "Earlier" }).click();
  await page.locator("#turn-962").waitFor();
  await page.getByRole("link", { name: "First" }).click();
  await page.locator("#turn-1").waitFor();
});
