import { spawn, spawnSync } from "node:child_process";
import { mainFile } from "./run-drover.ts";

/** Whether there is what gives a program a terminal of its own: `script` of util-linux. */
export const hasScript: boolean = spawnSync("script", ["--version"]).stdout?.includes("util-linux") ?? false;

export type Terminal = {
  output(): string;
  /** Resolves once the output has this; rejects with all of it if the program ends before. */
  until(pattern: RegExp): Promise<void>;
  type(keys: string): void;
  /** The exit code. */
  ended: Promise<number | null>;
};

const foreign = /^(DROVER_|OTEL_|OPENAI_|REDIS_|NO_COLOR|FORCE_COLOR)/;

/** Runs `drover` on a terminal of 60 columns and 20 rows. */
export function openTerminal(args: string[], env: Record<string, string>): Terminal {
  const kept = Object.entries(process.env).filter(([name]) => !foreign.test(name));
  const command = [process.execPath, mainFile, ...args].map((word) => `'${word}'`).join(" ");
  const child = spawn("script", ["-qfec", `stty cols 60 rows 20; exec ${command}`, "/dev/null"], {
    env: { ...Object.fromEntries(kept), TERM: "xterm", ...env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  let output = "";
  const looks = new Set<() => void>();
  child.stdout.setEncoding("utf8").on("data", (piece: string) => {
    output += piece;
    for (const look of looks) look();
  });
  const ended = new Promise<number | null>((resolve) => {
    child.once("close", resolve);
  });
  return {
    output: () => output,
    until: (pattern) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (!pattern.test(output)) return;
          looks.delete(look);
          resolve();
        };
        looks.add(look);
        void ended.then(() => reject(new Error(`it ended without ${pattern}: ${JSON.stringify(output)}`)));
        look();
      }),
    type: (keys) => void child.stdin.write(keys),
    ended,
  };
}
