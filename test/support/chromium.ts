import { existsSync } from "node:fs";
import { type Browser, chromium } from "playwright-core";

const places = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Starts the machine's Chromium. @throws Error saying how to get one. */
export async function launchBrowser(): Promise<Browser> {
  const executablePath = process.env.CHROMIUM ?? places.find((place) => existsSync(place));
  if (executablePath === undefined) {
    throw new Error(
      "These tests need Chromium and found none: apt-get install chromium, or set CHROMIUM to where one is.",
    );
  }
  // Within a container there is no other way than without its sandbox; it shows our own pages only.
  return chromium.launch({ executablePath, args: ["--no-sandbox"] });
}
