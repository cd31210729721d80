import { z } from "zod";
import { defineTool, type Tool } from "../define-tool.ts";
import { toSeconds } from "../messages.ts";
import { parseOptions } from "./options.ts";
import { type Ending, runProcess } from "./run-process.ts";

const killAfterMs = 2_000;

const optionsSchema = z.strictObject({
  commands: z.array(z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._+-]*$/, "expected the bare name of a program")).min(1),
  cwd: z.string().min(1),
  timeoutMs: z.int().min(1).max(86_400_000).default(60_000),
  maxOutputBytes: z
    .int()
    .min(2)
    .max(1024 * 1024)
    .default(64 * 1024),
  env: z.array(z.string()).default(["PATH", "HOME", "LANG", "TZ"]),
});

/**
 * Options of `runCommand`.
 * - `commands`: names of programs that may be run, found on PATH;
 * - `cwd`: where they run;
 * - `timeoutMs`: then the program and all it started are killed, default 60,000;
 * - `maxOutputBytes`: shown of output and errors together, beginning and end, default 64 KiB;
 * - `env`: names of the environment variables they see, default PATH, HOME, LANG and TZ.
 */
export type RunCommandOptions = {
  commands: string[];
  cwd: string;
  timeoutMs?: number;
  maxOutputBytes?: number;
  env?: string[];
};

/**
 * Runs listed programs, without a shell. A listed program can do whatever its arguments let it: list none that runs
 * others (`env`, `find`, `git`, `xargs`), unless that is meant.
 */
export function runCommand(options: RunCommandOptions): Tool {
  const { commands, cwd, timeoutMs, maxOutputBytes, env } = parseOptions("runCommand", optionsSchema, options);
  const [first = ""] = commands;
  return defineTool({
    name: "run_command",
    description: `Runs a program and returns its exit code, output and errors. There is no shell: no pipes, globs or variables.
command: one of ${commands.join(", ")}. args: its arguments, one text each, without quotes around them.
Format: a name and a list of texts. It is killed after ${toSeconds(timeoutMs)}. Example: {"command":"${first}","args":["--version"]}`,
    parameters: z.object({
      command: z.enum(commands).describe(`The program, e.g. ${first}`),
      args: z
        .array(
          z
            .string()
            .max(32_768)
            .refine((text) => !text.includes("\0"), "no NUL"),
        )
        .max(256)
        .default([])
        .describe('Its arguments, e.g. ["--version"]'),
    }),
    effect: "write",
    // The program's own limit comes first, so that what it printed until then is told.
    timeoutMs: timeoutMs + killAfterMs + 3_000,
    execute: async ({ command, args }, { signal }) => {
      const picked = pickEnv(env);
      const limits = { timeoutMs, killAfterMs, maxOutputBytes };
      return describeEnding(await runProcess({ command, args, cwd, env: picked, signal, ...limits }), timeoutMs);
    },
  });
}

function pickEnv(names: readonly string[]): Record<string, string> {
  const picked: Record<string, string> = {};
  for (const name of names) {
    const value = process.env[name];
    if (value !== undefined) picked[name] = value;
  }
  return picked;
}

function describeEnding({ code, signal, timedOut, output }: Ending, timeoutMs: number): string {
  const how = timedOut
    ? `killed: no end within ${toSeconds(timeoutMs)}`
    : code === null
      ? `killed by ${signal}`
      : `exit code ${code}`;
  return output === "" ? `${how}, no output` : `${how}\n${output}`;
}
