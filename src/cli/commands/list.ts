import type { Command } from "commander";
import { type RunStatus, runStatuses } from "../../core/run.ts";
import { act, type Exit } from "../command.ts";
import { type Context, withDrover } from "../context.ts";
import { toListTable } from "../format/run.ts";
import { toInteger, toOneOf, toPairs, toTime } from "../options.ts";

type Options = {
  status?: RunStatus;
  agent?: string;
  session?: string;
  tenant?: string;
  metadata?: Record<string, string>;
  since?: number;
  until?: number;
  search?: string;
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
    .option("--tenant <id>", "only runs of this tenant")
    .option("--metadata <key=value>", "only runs whose metadata has this; may be repeated", toPairs)
    .option("--since <time>", "only runs created since: a date, or a time ago such as 90s, 15m, 2h, 7d", toTime)
    .option("--until <time>", "only runs created before; as --since", toTime)
    .option("--search <text>", "only runs with this in their id")
    .option("--limit <n>", "at most so many (default: 50)", toInteger(1, 1000))
    .option("--cursor <cursor>", "go on from the page before")
    .option("--json", "print JSON")
    .action((options: Options) => act(context, exit, options, () => list(context, options)));
}

async function list(context: Context, { since, until, json, ...filter }: Options): Promise<number> {
  const { output } = context;
  return withDrover(context, async (drover) => {
    const { agent, tenant } = filter;
    const [page, counts] = await Promise.all([
      drover.list({ ...filter, createdAfter: since, createdBefore: until }),
      drover.count({ agent, tenant }),
    ]);
    if (json) {
      output.json({ ...page, counts });
      return 0;
    }
    const now = Date.now();
    if (page.runs.length === 0) output.note("no runs");
    else {
      output.table(...toListTable(page.runs, now, output.mark));
      output.note(toCounts(counts, filter));
    }
    if (page.cursor !== undefined) output.note(`more: --cursor ${page.cursor}`);
    return 0;
  });
}

/** How many runs there are of each status, whatever else was asked for. */
function toCounts(counts: Record<RunStatus, number>, { agent, tenant }: Pick<Options, "agent" | "tenant">): string {
  const told = runStatuses.filter((status) => counts[status] > 0).map((status) => `${counts[status]} ${status}`);
  const whose = [...(agent ? [`of ${agent}`] : []), ...(tenant ? [`of tenant ${tenant}`] : [])];
  return `in all${whose.length === 0 ? "" : ` ${whose.join(" ")}`}: ${told.join(", ")}`;
}
