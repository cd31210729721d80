// Makes the pictures of the README: the operators' pages over a small installation that is the same each time.
import { mkdirSync, statSync } from "node:fs";
import { listen } from "../src/server/listen.ts";
import { launchBrowser } from "../test/support/chromium.ts";
import { openScene } from "../test/support/scene.ts";

const folder = "docs/images";
const largest = 200_000;

type Picture = { name: string; path: string; dark?: boolean; height?: number };

const pictures: Picture[] = [
  { name: "runs", path: "/", height: 760 },
  { name: "run", path: "/ui/runs/brief-redis-streams", dark: true, height: 740 },
  { name: "approvals", path: "/ui/approvals", height: 640 },
];

const scene = await openScene();
const site = await listen(scene.fetch, scene.deps.settings, { port: 0 });
const browser = await launchBrowser();
mkdirSync(folder, { recursive: true });
for (const { name, path, dark = false, height = 800 } of pictures) {
  const context = await browser.newContext({
    viewport: { width: 1280, height },
    colorScheme: dark ? "dark" : "light",
    // Ages would go on.
    javaScriptEnabled: false,
  });
  const page = await context.newPage();
  await page.goto(site.url + path);
  const file = `${folder}/${name}.png`;
  await page.screenshot({ path: file });
  const { size } = statSync(file);
  if (size > largest) throw new Error(`${file} has ${size} bytes; show less on it, it is to have ${largest} at most.`);
  process.stdout.write(`${file} ${Math.round(size / 1_000)} KB\n`);
  await context.close();
}
await browser.close();
await site.close(0);
process.exit(0);
