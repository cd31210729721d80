import type { Command } from "commander";
import { wholeCharacters } from "../../core/result.ts";
import type { RunHandle } from "../../engine/run-handle.ts";
import { act, type Exit } from "../command.ts";
import { type Context, withDrover } from "../context.ts";
import { toAuditTable } from "../format/audit.ts";
import { printDescribed } from "../format/dry-run.ts";
import { toOpenCalls, toSummary } from "../format/run.ts";
import { toPrintable } from "../format/text.ts";
import { toTranscript } from "../format/transcript.ts";
import { toInteger } from "../options.ts";

type Options = { audit?: boolean; result?: string; from?: number; json?: boolean };

/** `drover show ID`. */
export function registerShow(program: Command, context: Context, exit: Exit): void {
  program
    .command("show")
    .description("show a run: its state, what it waits for, its transcript")
    .argument("<id>", "id of the run")
    .option("--audit", "show who did what to it in place of the transcript")
    .option("--result <call>", "print the whole result of a call, such as call-3-1, in place of the transcript")
    .option("--from <characters>", "with --result: begin there", toInteger(0, Number.MAX_SAFE_INTEGER))
    .option("--json", "print JSON")
    .action((id: string, options: Options) => act(context, exit, options, () => show(context, id, options)));
}

async function show(context: Context, id: string, options: Options): Promise<number> {
  const { audit = false, json = false, result, from = 0 } = options;
  const { output } = context;
  return withDrover(context, async (drover) => {
    const run = drover.get(id);
    if (result !== undefined) return printResult(context, run, result, from);
    const view = await run.status();
    const transcript = audit ? [] : context.redactor().value(await run.transcript());
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

/** Characters of a result that are read and printed at a time. */
const pageLength = 1_048_576;

/** Prints a whole result piece by piece, however long it is: to a terminal what it can bear, elsewhere as it is. */
async function printResult(
  { output, redactor }: Context,
  run: RunHandle,
  callId: string,
  from: number,
): Promise<number> {
  const shown = redactor().stream();
  const print = (text: string): void => output.write(output.isTerminal ? toPrintable(text) : text);
  for (let at = from; ; ) {
    const { text, to, chars } = wholeCharacters(await run.readResult(callId, { from: at, length: pageLength }));
    print(shown.push(text));
    if (to >= chars || text === "") break;
    at = to;
  }
  print(`${shown.end()}\n`);
  return 0;
}
