import type { Command } from "commander";
import { act, type Exit } from "../command.ts";
import { type Context, withDrover } from "../context.ts";
import { toOpenCalls, toSummary } from "../format/run.ts";
import { toTranscript } from "../format/transcript.ts";

/** `drover show ID`. */
export function registerShow(program: Command, context: Context, exit: Exit): void {
  program
    .command("show")
    .description("show a run: its state, what it waits for, its transcript")
    .argument("<id>", "id of the run")
    .option("--json", "print JSON")
    .action((id: string, options: { json?: boolean }) =>
      act(context, exit, options, () => show(context, id, options.json === true)),
    );
}

async function show(context: Context, id: string, asJson: boolean): Promise<number> {
  const { output } = context;
  return withDrover(context, async (drover) => {
    const run = drover.get(id);
    const view = await run.status();
    const transcript = await run.transcript();
    if (asJson) {
      output.json({ ...view, transcript });
      return 0;
    }
    for (const line of toSummary(view, output.mark)) output.line(line);
    if (view.openCalls.length > 0) output.line(`\n${toOpenCalls(view, output.mark, context.program).join("\n")}`);
    if (transcript.length > 0) output.line(`\n${toTranscript(transcript, output.mark)}`);
    return 0;
  });
}
