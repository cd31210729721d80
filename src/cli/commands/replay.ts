import { clearLine, moveCursor } from "node:readline";
import { createInterface } from "node:readline/promises";
import type { Command } from "commander";
import { DroverError } from "../../core/errors.ts";
import type { TurnView } from "../../core/report.ts";
import type { RunHandle } from "../../engine/run-handle.ts";
import { act, type Exit } from "../command.ts";
import { type Context, withDrover } from "../context.ts";
import { toReplay } from "../format/replay.ts";
import { toInteger } from "../options.ts";
import { listenForStop } from "../signals.ts";

type Options = { turn?: number; full?: boolean; all?: boolean; json?: boolean };

/** `drover replay ID`. */
export function registerReplay(program: Command, context: Context, exit: Exit): void {
  program
    .command("replay")
    .description("walk through a run turn by turn: what the model was sent, its reply, calls with results, times, cost")
    .argument("<id>", "id of the run")
    .option("--turn <n>", "only this turn", toInteger(1, Number.MAX_SAFE_INTEGER))
    .option("--full", "whole messages and results in place of their beginnings")
    .option("--all", "all turns at once; on a terminal each waits for Enter otherwise")
    .option("--json", "print one JSON object a line, one for each turn")
    .action((id: string, options: Options) => act(context, exit, options, () => replay(context, id, options)));
}

async function replay(context: Context, id: string, options: Options): Promise<number> {
  return withDrover(context, async (drover) => {
    const turns = turnsOf(drover.get(id), options.turn);
    const isAsked = context.output.isTerminal && process.stdin.isTTY === true;
    const print = createPrint(context, options);
    if (!isAsked || options.all || options.json || options.turn !== undefined) {
      for await (const told of turns) print(told);
      return 0;
    }
    return walkThrough(turns, print);
  });
}

type Told = { turn: TurnView; total: number };

function createPrint({ output }: Context, { full = false, json, turn: only }: Options): (told: Told) => void {
  return ({ turn, total }) => {
    if (json) return output.json(turn);
    for (const line of toReplay(turn, { total, full, mark: output.mark })) output.line(line);
    if (turn.turn < total && only === undefined) output.line();
  };
}

/** Turn by turn, each after the first when Enter is pressed. */
async function walkThrough(turns: AsyncIterable<Told>, print: (told: Told) => void): Promise<number> {
  const walk = openWalk();
  try {
    for await (const told of turns) {
      const { turn } = told.turn;
      if (turn > 1 && !(await walk.goesOn(turn, told.total))) return walk.wasStopped() ? 130 : 0;
      print(told);
    }
    return 0;
  } finally {
    walk.end();
  }
}

/** A request repeats most of the one before: few of them are read at a time. */
const pageTurns = 5;

/** All turns, or one. @throws DroverError "not_found" for a turn that there is not */
async function* turnsOf(run: RunHandle, only: number | undefined): AsyncGenerator<Told> {
  for (let from = only ?? 1; ; ) {
    const { turns, total } = await run.turns({ from, limit: only === undefined ? pageTurns : 1 });
    if (only !== undefined && turns.length === 0) {
      throw new DroverError("not_found", `Run "${run.id}" has no turn ${only}: it has ${total}.`);
    }
    for (const turn of turns) yield { turn, total };
    from += turns.length;
    if (only !== undefined || turns.length === 0 || from > total) return;
  }
}

type Walk = { goesOn(turn: number, total: number): Promise<boolean>; wasStopped(): boolean; end(): void };

/** Asks before each turn; Ctrl-C, Ctrl-D and `q` end the walk. */
function openWalk(): Walk {
  const stop = listenForStop();
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  lines.on("SIGINT", () => process.kill(process.pid, "SIGINT"));
  const closed = new Promise<string>((resolve) => {
    lines.once("close", () => resolve("q"));
  });
  return {
    async goesOn(turn, total) {
      const asked = lines
        .question(`Enter: turn ${turn} of ${total}, q: stop `, { signal: stop.signal })
        .catch(() => "q");
      const said = await Promise.race([asked, closed]);
      moveCursor(process.stdout, 0, stop.signal.aborted ? 0 : -1);
      clearLine(process.stdout, 0);
      return said.trim().toLowerCase() !== "q";
    },
    wasStopped: () => stop.signal.aborted,
    end() {
      lines.close();
      stop.release();
    },
  };
}
