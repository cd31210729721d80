import type { Command } from "commander";
import { act, type Exit } from "../command.ts";
import { type Context, withDrover } from "../context.ts";
import { followRun } from "../follow-run.ts";

/** `drover watch ID`. */
export function registerWatch(program: Command, context: Context, exit: Exit): void {
  program
    .command("watch")
    .description("follow a run to its end, from its beginning; exit code 0 only if it completes")
    .argument("<id>", "id of the run")
    .option("--json", "print one JSON object a line")
    .action((id: string, options: { json?: boolean }) =>
      act(context, exit, options, () =>
        withDrover(context, async (drover) => followRun(context, drover.get(id), options)),
      ),
    );
}
