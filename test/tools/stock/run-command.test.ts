import { mkdtemp, readdir, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Tool } from "../../../src/tools/define-tool.ts";
import { createOutputBuffer } from "../../../src/tools/stock/output-buffer.ts";
import { type RunCommandOptions, runCommand } from "../../../src/tools/stock/run-command.ts";
import { runProcess } from "../../../src/tools/stock/run-process.ts";
import { callTool, textFrom } from "../request.ts";

let cwd: string;
beforeEach(async () => {
  cwd = await realpath(await mkdtemp(join(tmpdir(), "drover-run-")));
});
afterEach(() => rm(cwd, { recursive: true, force: true }));

function tool(options: Partial<RunCommandOptions> = {}): Tool {
  return runCommand({ commands: ["echo", "sh", "pwd", "env", "false", "no-such-program"], cwd, ...options });
}

/** Resolves once the process has ended. Polls, since nothing announces the end of a stranger's child. */
async function gone(pid: number): Promise<void> {
  expect(pid).toBeGreaterThan(1);
  for (;;) {
    const state = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
    // Dead but not collected by its parent counts as ended: who collects it is the machine's affair.
    if (state === "" || /\) [ZX] /.test(state)) return;
  }
}

describe("run_command", () => {
  test("runs a program where it was told to, and tells code, output and errors", async () => {
    expect(await textFrom(tool(), { command: "pwd" })).toBe(`exit code 0\n${cwd}\n`);
    const args = ["-c", "echo out; echo err >&2; exit 3"];
    const shown = await textFrom(tool(), { command: "sh", args });
    expect(shown).toContain("exit code 3\n");
    expect(shown).toContain("out\n");
    expect(shown).toContain("err\n");
    expect(await textFrom(tool(), { command: "false" })).toBe("exit code 1, no output");
  });

  test.each([
    "; touch evil",
    "$(touch evil)",
    "`touch evil`",
    "| touch evil",
    "&& touch evil",
    "> evil",
    "a\nb",
    "*",
    "$HOME",
    "'",
    '"',
  ])("%j is only text", async (text) => {
    expect(await textFrom(tool(), { command: "echo", args: [text] })).toBe(`exit code 0\n${text}\n`);
    expect(await readdir(cwd)).toEqual([]);
  });

  test.each(["rm", "/bin/echo", "./echo", "echo x", "echo;ls", "../sh", "", "ECHO"])(
    "%j is not run",
    async (command) => {
      const outcome = await callTool(tool(), { command });
      expect(outcome).toMatchObject({ type: "failed", message: expect.stringContaining("command: expected") });
    },
  );

  test("arguments that cannot be are refused", async () => {
    expect(await callTool(tool(), { command: "echo", args: ["a\0b"] })).toMatchObject({ type: "failed" });
    expect(await callTool(tool(), { command: "echo", args: Array(300).fill("x") })).toMatchObject({ type: "failed" });
    const tooMuch = Array(256).fill("x".repeat(32_768));
    const outcome = await callTool(tool(), { command: "echo", args: tooMuch });
    expect(outcome).toMatchObject({ type: "failed", message: expect.stringContaining("E2BIG") });
  });

  test("a program in the working folder does not stand in for a listed one", async () => {
    await writeFile(join(cwd, "echo"), "#!/bin/sh\ntouch evil\n", { mode: 0o755 });
    expect(await textFrom(tool(), { command: "echo", args: ["hi"] })).toBe("exit code 0\nhi\n");
  });

  test("only listed variables are seen", async () => {
    process.env.DROVER_TEST_SECRET = "s3cret";
    process.env.DROVER_TEST_SHOWN = "shown";
    try {
      expect(await textFrom(tool(), { command: "env" })).not.toContain("s3cret");
      const listed = tool({ env: ["PATH", "DROVER_TEST_SHOWN", "DROVER_TEST_UNSET"] });
      const shown = await textFrom(listed, { command: "env" });
      expect(shown).toContain("DROVER_TEST_SHOWN=shown");
      expect(shown).not.toContain("DROVER_TEST_SECRET");
      expect(shown).not.toContain("DROVER_TEST_UNSET");
    } finally {
      delete process.env.DROVER_TEST_SECRET;
      delete process.env.DROVER_TEST_SHOWN;
    }
  });

  test("a program that is not there is said", async () => {
    const outcome = await callTool(tool(), { command: "no-such-program" });
    expect(outcome).toMatchObject({
      type: "failed",
      message: expect.stringContaining("could not be started (ENOENT)"),
    });
    const elsewhere = tool({ cwd: join(cwd, "gone") });
    expect(await callTool(elsewhere, { command: "pwd" })).toMatchObject({ type: "failed" });
  });

  test("100 MB of output fit into bounded memory: the beginning and the end are shown", async () => {
    const before = process.memoryUsage().rss;
    const script = "echo begin; head -c 100000000 /dev/zero | tr '\\0' x; echo end";
    const shown = await textFrom(tool({ maxOutputBytes: 1_000 }), { command: "sh", args: ["-c", script] });
    expect(shown).toMatch(/^exit code 0\nbegin\nx+\n\[cut: 99999010 bytes left out\]\nx+end\n$/);
    expect(Buffer.byteLength(shown)).toBeLessThan(1_100);
    expect(process.memoryUsage().rss - before).toBeLessThan(80_000_000);
  });

  test("options are checked", () => {
    expect(() => tool({ commands: ["/bin/sh"] })).toThrow("bare name");
    expect(() => tool({ commands: [] })).toThrow("commands");
    expect(() => tool({ timeoutMs: -1 })).toThrow("timeoutMs");
  });
});

describe("the end of a command", () => {
  const slow = ["-c", "echo begun; sleep 60"];

  test("at the timeout it is killed, and what it printed is told", async () => {
    const shown = await textFrom(tool({ timeoutMs: 200 }), { command: "sh", args: slow });
    expect(shown).toBe("killed: no end within 0.2 s\nbegun\n");
  });

  function processRequest(script: string, fields: { timeoutMs?: number; signal?: AbortSignal } = {}) {
    return {
      command: "sh",
      args: ["-c", script],
      cwd,
      env: { PATH: process.env.PATH ?? "" },
      signal: new AbortController().signal,
      timeoutMs: 10_000,
      killAfterMs: 100,
      maxOutputBytes: 1_000,
      ...fields,
    };
  }

  test("one that ignores the request to end is killed", async () => {
    const ending = await runProcess(
      processRequest("trap '' TERM; echo $$; while :; do sleep 0.01; done", { timeoutMs: 200 }),
    );
    expect(ending).toMatchObject({ code: null, signal: "SIGKILL", timedOut: true });
    await gone(Number(ending.output));
  });

  test("its children go with it", async () => {
    const script = "sh -c \"trap '' TERM; echo \\$\\$; while :; do sleep 0.01; done\" & wait";
    const ending = await runProcess(processRequest(script, { timeoutMs: 200 }));
    expect(ending.timedOut).toBe(true);
    await gone(Number(ending.output));
  });

  test("what it leaves running behind is killed and not waited for", async () => {
    const begun = performance.now();
    const ending = await runProcess(processRequest("sleep 60 & echo $!"));
    expect(ending).toMatchObject({ code: 0, timedOut: false });
    expect(performance.now() - begun).toBeLessThan(5_000);
    await gone(Number(ending.output));
  });

  test("a child that left the group does not hold the result", async () => {
    const begun = performance.now();
    const ending = await runProcess(processRequest("setsid sh -c 'echo $$; exec sleep 60' & sleep 0.2; exit 0"));
    expect(ending.code).toBe(0);
    expect(performance.now() - begun).toBeLessThan(5_000);
    process.kill(Number(ending.output), "SIGKILL");
  });

  test("on abort the group is killed", async () => {
    const controller = new AbortController();
    const running = runProcess(processRequest("sleep 60", { signal: controller.signal }));
    controller.abort(new Error("cancelled"));
    await expect(running).rejects.toThrow("cancelled");
    const aborted = AbortSignal.abort(new Error("before"));
    await expect(runProcess(processRequest("sleep 60", { signal: aborted }))).rejects.toThrow("before");
  });
});

test("an output buffer keeps both ends", () => {
  const buffer = createOutputBuffer(6);
  for (const text of ["ab", "", "cdef", "ghij"]) buffer.add(Buffer.from(text));
  expect(buffer.text()).toBe("abc\n[cut: 4 bytes left out]\nhij");
  const small = createOutputBuffer(6);
  for (const text of ["ab", "cd", "ef"]) small.add(Buffer.from(text));
  expect(small.text()).toBe("abcdef");
});
