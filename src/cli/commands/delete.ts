import type { Command } from "commander";
import { act, type Exit } from "../command.ts";
import { type Context, withDrover } from "../context.ts";

/** `drover delete ID`. */
export function registerDelete(program: Command, context: Context, exit: Exit): void {
  program
    .command("delete")
    .description(
      "remove a run that has ended, or whose record is damaged, with all that is kept of it; a session's transcript stays",
    )
    .argument("<id>", "id of the run")
    .option("--json", "print JSON")
    .action((id: string, options: { json?: boolean }) =>
      act(context, exit, options, () =>
        withDrover(context, async (drover) => {
          const { damage } = await drover.delete(id);
          const told = damage === undefined ? "" : `; its record was damaged: ${damage}`;
          if (options.json)
            context.output.json({ runId: id, deleted: true, ...(damage === undefined ? {} : { damage }) });
          else context.output.line(`${id}  deleted${told}`);
          return 0;
        }),
      ),
    );
}
