import { resolve } from "node:path";
import type { Command } from "commander";
import type { InputMessage } from "../../core/message.ts";
import type { Drover } from "../../drover.ts";
import { filePart, textPart } from "../../tools/parts.ts";
import { act, type Exit } from "../command.ts";
import { type Context, withDrover } from "../context.ts";
import { followRun } from "../follow-run.ts";
import { toStatus } from "../format/run.ts";
import { toOneLine } from "../format/text.ts";
import { addLimits, pickLimits, readInput, toInteger, toList, toPairs, whoAmI } from "../options.ts";

type Options = Parameters<typeof pickLimits>[0] & {
  id?: string;
  file?: string[];
  session?: string;
  tenant?: string;
  inject?: boolean;
  metadata?: Record<string, string>;
  priority?: number;
  delayMs?: number;
  dryRun?: boolean;
  by: string;
  watch?: boolean;
  json?: boolean;
};

/** `drover start AGENT INPUT`. */
export function registerStart(program: Command, context: Context, exit: Exit): void {
  const command = program
    .command("start")
    .description("start a run; the same --id again gives the same run")
    .argument("<agent>", "name of an agent that some worker knows")
    .argument("<input>", "what to tell it; - reads standard input")
    .option("--id <id>", "id of the run: letters, digits, '-', '_', '.'")
    .option("--file <path>", "an image, PDF, audio or text file that goes with the input; may be repeated", toList)
    .option("--session <id>", "session the run belongs to: its runs share a transcript and take turns")
    .option("--inject", "if a run of the session is active, give it the input instead of starting another")
    .option("--tenant <id>", "whose run it is: keys of a tenant see its own runs only")
    .option("--metadata <key=value>", "kept with the run and given to its tools; may be repeated", toPairs)
    .option("--priority <n>", "lower goes first", toInteger(1, 2_097_152))
    .option("--delay-ms <ms>", "begin only after this time", toInteger(0, 315_360_000_000))
    .option("--dry-run", "execute what only reads; what other tools would do is told, not done")
    .option("--by <who>", "who starts it", whoAmI())
    .option("--watch", "follow the run to its end; exit code 0 only if it completes")
    .option("--json", "print JSON");
  addLimits(command).action((agent: string, input: string, options: Options) =>
    act(context, exit, options, () => start(context, agent, input, options)),
  );
}

async function start(context: Context, agent: string, argument: string, options: Options): Promise<number> {
  const text = readInput(argument);
  const files = (options.file ?? []).map((path) => filePart({ path: resolve(context.dir, path) }));
  const input: string | InputMessage[] =
    files.length === 0 ? text : [{ role: "user", content: [textPart(text), ...files] }];
  return withDrover(context, async (drover) => {
    const run = await drover.start(agent, input, {
      runId: options.id,
      session: options.session,
      tenant: options.tenant,
      whenBusy: options.inject ? "inject" : undefined,
      metadata: options.metadata,
      limits: pickLimits(options),
      priority: options.priority,
      delayMs: options.delayMs,
      dryRun: options.dryRun,
      by: options.by,
    });
    if (options.watch) {
      context.output.note(`run ${run.id}`);
      return followRun(context, run, options);
    }
    const view = await run.status();
    if (options.json) context.output.json(view);
    else {
      context.output.line(`${run.id}  ${toStatus(view, context.output.mark)}`);
      context.output.note(`follow it: ${context.program} watch ${run.id}`);
      await noteUnknown(context, drover, view.agent);
    }
    return 0;
  });
}

const namesShown = 10;

/** Says so if no worker knows the agent: the run waits for one, and it may be a slip of the pen. */
async function noteUnknown({ output }: Context, drover: Drover, agent: string): Promise<void> {
  const workers = await drover.fleet().then(
    (view) => view.workers,
    () => [],
  );
  const known = [...new Set(workers.flatMap(({ agents }) => agents))].map((name) => toOneLine(name, 64));
  if (workers.length === 0 || known.includes(agent)) return;
  const names = known.slice(0, namesShown).join(", ");
  output.note(`no worker knows "${toOneLine(agent, 64)}" now, and the run waits for one; known: ${names}`);
}
