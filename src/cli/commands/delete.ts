import type { Command } from "commander";
import { act, type Exit } from "../command.ts";
import { type Context, withDrover } from "../context.ts";

/** `drover delete ID`. */
export function registerDelete(program: Command, context: Context, exit: Exit): void {
  program
    .command("delete")
    .description("remove a run that has ended with all that is kept of it; a session's transcript stays")
    .argument("<id>", "id of the run")
    .option("--json", "print JSON")
    .action((id: string, options: { json?: boolean }) =>
      act(context, exit, options, () =>
        withDrover(context, async (drover) => {
          await drover.delete(id);
          if (options.json) context.output.json({ runId: id, deleted: true });
          else context.output.line(`${id}  deleted`);
          return 0;
        }),
      ),
    );
}
