import type { Command } from "commander";
import { act, type Exit } from "../command.ts";
import { type Context, withDrover } from "../context.ts";
import { followRun } from "../follow-run.ts";
import { readInput, whoAmI } from "../options.ts";

type Options = { inputId?: string; by: string; watch?: boolean; json?: boolean };

/** `drover send ID INPUT`. */
export function registerSend(program: Command, context: Context, exit: Exit): void {
  program
    .command("send")
    .description("tell a run more; it enters before the next model call")
    .argument("<id>", "id of the run")
    .argument("<input>", "what to tell it; - reads standard input")
    .option("--input-id <id>", "names the input: sent again, it is not taken twice")
    .option("--by <who>", "who says it", whoAmI())
    .option("--watch", "follow the run to its end; exit code 0 only if it completes")
    .option("--json", "print JSON")
    .action((id: string, input: string, options: Options) =>
      act(context, exit, options, () => send(context, id, readInput(input), options)),
    );
}

async function send(context: Context, id: string, text: string, options: Options): Promise<number> {
  const { by, inputId, watch, json } = options;
  return withDrover(context, async (drover) => {
    const run = drover.get(id);
    await run.send(text, { by, ...(inputId === undefined ? {} : { inputId }) });
    if (watch) return followRun(context, run, options);
    if (json) context.output.json(await run.status());
    else context.output.line(`${id}  input received`);
    return 0;
  });
}
