import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";

const cache = resolve("node_modules/.cache/promtool");
const cached = join(cache, "promtool");

/**
 * Where promtool is: on the PATH, in this checkout's cache, or fetched into it: Debian's package is unpacked, not
 * installed, since it would start a service.
 *
 * @throws Error that says what to do where there is none and none can be had.
 */
export function findPromtool(): string {
  if (runs("promtool")) return "promtool";
  if (!existsSync(cached)) fetchPromtool();
  return cached;
}

function runs(file: string): boolean {
  return spawnSync(file, ["--version"], { stdio: "ignore" }).status === 0;
}

function fetchPromtool(): void {
  mkdirSync(cache, { recursive: true });
  const dir = mkdtempSync(join(cache, "fetch-"));
  try {
    execFileSync("apt-get", ["download", "-qq", "prometheus"], { cwd: dir, stdio: "pipe" });
    const [file = ""] = readdirSync(dir);
    execFileSync("dpkg", ["-x", file, "unpacked"], { cwd: dir, stdio: "pipe" });
    renameSync(join(dir, "unpacked/usr/bin/promtool"), cached);
  } catch (cause) {
    throw new Error(
      "These tests need promtool. On Debian `apt-get update && apt-get download prometheus` must work; else put promtool on the PATH.",
      { cause },
    );
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Runs promtool; what it said, and whether it found nothing wrong. */
export function promtool(args: string[], input?: string): { ok: boolean; output: string } {
  const { status, stdout, stderr } = spawnSync(findPromtool(), args, { input: input ?? "", encoding: "utf8" });
  return { ok: status === 0, output: `${stdout}${stderr}` };
}
