import type { Command } from "commander";
import { act, type Exit } from "../command.ts";
import { type Context, withDrover } from "../context.ts";
import { toAuditTable } from "../format/audit.ts";
import { printDescribed } from "../format/dry-run.ts";
import { toOpenCalls, toSummary } from "../format/run.ts";
import { toTranscript } from "../format/transcript.ts";

type Options = { audit?: boolean; json?: boolean };

/** `drover show ID`. */
export function registerShow(program: Command, context: Context, exit: Exit): void {
  program
    .command("show")
    .description("show a run: its state, what it waits for, its transcript")
    .argument("<id>", "id of the run")
    .option("--audit", "show who did what to it in place of the transcript")
    .option("--json", "print JSON")
    .action((id: string, options: Options) => act(context, exit, options, () => show(context, id, options)));
}

async function show(context: Context, id: string, { audit = false, json = false }: Options): Promise<number> {
  const { output } = context;
  return withDrover(context, async (drover) => {
    const run = drover.get(id);
    const view = await run.status();
    const transcript = audit ? [] : await run.transcript();
    const entries = audit ? await run.audit() : [];
    if (json) {
      output.json({ ...view, ...(audit ? { audit: entries } : { transcript }) });
      return 0;
    }
    for (const line of toSummary(view, output.mark)) output.line(line);
    if (view.openCalls.length > 0) output.line(`\n${toOpenCalls(view, output.mark, context.program).join("\n")}`);
    if (transcript.length > 0) output.line(`\n${toTranscript(transcript, output.mark)}`);
    if (audit) {
      output.line();
      output.table(...toAuditTable(entries));
    } else await printDescribed(context, run);
    return 0;
  });
}
