import type { Command } from "commander";
import { DroverError } from "../../core/errors.ts";
import { act, type Exit } from "../command.ts";
import { type Context, withDrover } from "../context.ts";
import { count, toOneLine } from "../format/text.ts";
import { whoAmI } from "../options.ts";

type Options = { all?: boolean; by: string; reason: string; json?: boolean };

/** `drover pause ID`, `drover pause --all`. */
export function registerPause(program: Command, context: Context, exit: Exit): void {
  program
    .command("pause")
    .description("let nothing of a run, or with --all of the whole fleet, begin until it is resumed")
    .argument("[id]", "id of the run")
    .option("--all", "every run and every worker")
    .option("--by <who>", "who wants it", whoAmI())
    .option("--reason <text>", "why", "paused from the command line")
    .option("--json", "print JSON")
    .action((id: string | undefined, options: Options) =>
      act(context, exit, options, () => {
        const which = toWhich(id, options);
        return which === undefined ? pauseAll(context, options) : pause(context, which, options);
      }),
    );
}

/** `drover resume ID`, `drover resume --all`. */
export function registerResume(program: Command, context: Context, exit: Exit): void {
  program
    .command("resume")
    .description("let a paused run, or with --all the fleet, go on where it was")
    .argument("[id]", "id of the run")
    .option("--all", "the fleet that was paused with --all; runs that were paused one by one stay so")
    .option("--by <who>", "who wants it", whoAmI())
    .option("--json", "print JSON")
    .action((id: string | undefined, options: Options) =>
      act(context, exit, options, () => {
        const which = toWhich(id, options);
        return which === undefined ? resumeAll(context, options) : resume(context, which, options);
      }),
    );
}

/** The run's id; undefined: all of them. */
function toWhich(id: string | undefined, { all = false }: Options): string | undefined {
  if ((id === undefined) === all) return id;
  const message = all
    ? "Expected an id or --all, not both."
    : "Expected the id of a run, or --all for the whole fleet.";
  throw new DroverError("invalid", message);
}

async function pause(context: Context, id: string, { by, reason, json }: Options): Promise<number> {
  return withDrover(context, async (drover) => {
    const run = drover.get(id);
    const applied = await run.pause({ by, reason });
    if (json) context.output.json(await run.status());
    else context.output.line(`${id}  ${applied ? "paused" : "was paused already"}`);
    return 0;
  });
}

async function resume(context: Context, id: string, { by, json }: Options): Promise<number> {
  return withDrover(context, async (drover) => {
    const run = drover.get(id);
    const applied = await run.resume({ by });
    if (json) context.output.json(await run.status());
    else context.output.line(`${id}  ${applied ? "goes on" : "was not paused"}`);
    return 0;
  });
}

/** Exits with 1 while some worker has not said that it takes no more steps. */
async function pauseAll(context: Context, { by, reason, json }: Options): Promise<number> {
  const { output } = context;
  return withDrover(context, async (drover) => {
    const paused = await drover.pauseAll({ by, reason });
    const { applied, workers, taking } = paused;
    if (json) output.json(paused);
    else {
      const before = applied
        ? "paused"
        : `was paused already by ${toOneLine(paused.by, 80)} (${toOneLine(paused.reason, 200)})`;
      output.line(`the fleet ${before}; ${count(workers, "worker")}, ${taking} of them still taking steps`);
      if (taking > 0) output.note("Older workers do not say so and take steps: stop them, or ask again in a moment.");
    }
    return taking === 0 ? 0 : 1;
  });
}

async function resumeAll(context: Context, { json }: Options): Promise<number> {
  return withDrover(context, async (drover) => {
    const applied = await drover.resumeAll();
    if (json) context.output.json({ applied });
    else context.output.line(applied ? "the fleet goes on" : "the fleet was not paused");
    return 0;
  });
}
