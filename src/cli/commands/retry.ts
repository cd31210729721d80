import type { Command } from "commander";
import { act, type Exit } from "../command.ts";
import { type Context, withDrover } from "../context.ts";
import { followRun } from "../follow-run.ts";
import { toStatus } from "../format/run.ts";
import { addLimits, pickLimits, whoAmI } from "../options.ts";

type Options = Parameters<typeof pickLimits>[0] & { by: string; watch?: boolean; json?: boolean };

/** `drover retry ID`. */
export function registerRetry(program: Command, context: Context, exit: Exit): void {
  const command = program
    .command("retry")
    .description("go on with a failed run from where it failed")
    .argument("<id>", "id of the run")
    .option("--by <who>", "who wants it", whoAmI())
    .option("--watch", "follow the run to its end; exit code 0 only if it completes")
    .option("--json", "print JSON");
  addLimits(command).action((id: string, options: Options) =>
    act(context, exit, options, () => retry(context, id, options)),
  );
}

async function retry(context: Context, id: string, options: Options): Promise<number> {
  return withDrover(context, async (drover) => {
    const run = drover.get(id);
    const limits = pickLimits(options);
    await run.retry({ by: options.by, ...(limits ? { limits } : {}) });
    if (options.watch) return followRun(context, run, options);
    const view = await run.status();
    if (options.json) context.output.json(view);
    else context.output.line(`${id}  ${toStatus(view, context.output.mark)}`);
    return 0;
  });
}
