import type { HttpContext } from "../types.ts";
import type { Goals } from "./goals.ts";
import { noticeOf, type PageParts, respond } from "./respond.ts";
import { parseRunsQuery } from "./runs-query.ts";
import { renderRuns } from "./runs-view.ts";

export async function runsPage(parts: PageParts, goals: Goals, context: HttpContext): Promise<Response> {
  const { deps } = parts;
  const { runs } = context.var;
  const now = deps.now();
  const { fields, filter, problems } = parseRunsQuery(new URL(context.req.url).searchParams, now);
  const [page, counts, agents] = await Promise.all([
    runs.list(filter),
    runs.count(filter.agent === undefined ? {} : { agent: filter.agent }),
    deps.presence.agents(),
  ]);
  const rows = await Promise.all(page.runs.map(async (run) => ({ run, goal: await goals(run) })));
  const main = renderRuns({
    fields,
    problems,
    rows,
    counts,
    next: page.cursor,
    agents: agents.map(({ name }) => name),
    notice: noticeOf(context),
    now,
  });
  return respond(parts, context, { title: "Runs", nav: "runs", wide: true, main });
}
