import { spawnSync } from "node:child_process";
import { homedir } from "node:os";
import { join } from "node:path";

const cached = join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "drover", "promtool");

/** Runs promtool; what it said, and whether it found nothing wrong. It is on the PATH or where `.ci/promtool` puts it. */
export function promtool(args: string[], input = ""): { ok: boolean; output: string } {
  for (const file of ["promtool", cached]) {
    const { status, stdout, stderr, error } = spawnSync(file, args, { input, encoding: "utf8" });
    if (!error) return { ok: status === 0, output: `${stdout}${stderr}` };
  }
  throw new Error("This test needs promtool. On Debian, .ci/promtool fetches it; elsewhere put it on the PATH.");
}
