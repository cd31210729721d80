import type { Command } from "commander";
import { type RunStatus, runStatuses } from "../../core/run.ts";
import { act, type Exit } from "../command.ts";
import { type Context, withDrover } from "../context.ts";
import { toListTable } from "../format/run.ts";
import { toInteger, toOneOf } from "../options.ts";

type Options = {
  status?: RunStatus;
  agent?: string;
  session?: string;
  limit?: number;
  cursor?: string;
  json?: boolean;
};

/** `drover list`. */
export function registerList(program: Command, context: Context, exit: Exit): void {
  program
    .command("list")
    .description("list runs, newest first")
    .option("--status <status>", `only these: ${runStatuses.join(", ")}`, toOneOf(runStatuses))
    .option("--agent <name>", "only runs of this agent")
    .option("--session <id>", "only runs of this session")
    .option("--limit <n>", "at most so many (default: 50)", toInteger(1, 1000))
    .option("--cursor <cursor>", "go on from the page before")
    .option("--json", "print JSON")
    .action((options: Options) => act(context, exit, options, () => list(context, options)));
}

async function list(context: Context, { status, agent, session, limit, cursor, json }: Options): Promise<number> {
  const { output } = context;
  return withDrover(context, async (drover) => {
    const page = await drover.list({ status, agent, session, limit, cursor });
    if (json) {
      output.json(page);
      return 0;
    }
    const now = Date.now();
    if (page.runs.length === 0) output.note("no runs");
    else output.table(...toListTable(page.runs, now, output.mark));
    if (page.cursor !== undefined) output.note(`more: --cursor ${page.cursor}`);
    return 0;
  });
}
