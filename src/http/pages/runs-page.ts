import { DroverError } from "../../core/errors.ts";
import type { RunList } from "../../drover.ts";
import type { RunFilter } from "../../ports.ts";
import { knownAgents } from "../known-agents.ts";
import type { HttpContext, RunApi } from "../types.ts";
import type { Goals } from "./goals.ts";
import { noticeOf, type PageParts, respond } from "./respond.ts";
import { parseRunsQuery } from "./runs-query.ts";
import { renderRuns } from "./runs-view.ts";

/** What the store cannot look for is told on the page, where it can be mended. */
async function listOrTell(runs: RunApi, filter: RunFilter, problems: string[]): Promise<RunList> {
  try {
    return await runs.list(filter);
  } catch (error) {
    if (!(error instanceof DroverError) || error.code !== "invalid") throw error;
    problems.push(error.message);
    return { runs: [] };
  }
}

export async function runsPage(parts: PageParts, goals: Goals, context: HttpContext): Promise<Response> {
  const { deps } = parts;
  const { runs } = context.var;
  const now = deps.now();
  const { fields, filter, problems } = parseRunsQuery(new URL(context.req.url).searchParams, now);
  const [page, counts, agents] = await Promise.all([
    listOrTell(runs, filter, problems),
    runs.count(filter.agent === undefined ? {} : { agent: filter.agent }),
    knownAgents(deps, context),
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
