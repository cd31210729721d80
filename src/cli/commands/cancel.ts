import type { Command } from "commander";
import { DroverError } from "../../core/errors.ts";
import { act, type Exit } from "../command.ts";
import { type Context, withDrover } from "../context.ts";
import { whoAmI } from "../options.ts";

type Options = { by: string; reason: string; json?: boolean };

/** `drover cancel ID`. */
export function registerCancel(program: Command, context: Context, exit: Exit): void {
  program
    .command("cancel")
    .description("end a run; what it is doing is aborted")
    .argument("<id>", "id of the run")
    .option("--by <who>", "who wants it", whoAmI())
    .option("--reason <text>", "why", "cancelled from the command line")
    .option("--json", "print JSON")
    .action((id: string, options: Options) => act(context, exit, options, () => cancel(context, id, options)));
}

async function cancel(context: Context, id: string, { by, reason, json }: Options): Promise<number> {
  return withDrover(context, async (drover) => {
    const run = drover.get(id);
    const applied = await run.cancel({ by, reason });
    const view = await run.status();
    if (view.status !== "cancelled") {
      throw new DroverError("not_allowed", `Run "${id}" is ${view.status} already and was not cancelled.`);
    }
    if (json) context.output.json(view);
    else context.output.line(`${id}  ${applied ? "cancelled" : "was cancelled already"}`);
    return 0;
  });
}
