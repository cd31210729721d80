import type { Command } from "commander";
import type { Config } from "../../config.ts";
import { act, type Exit } from "../command.ts";
import { type Context, findRedisUrl, withDrover } from "../context.ts";
import type { Diagnosis } from "../doctor/diagnosis.ts";
import { judgeFleet, judgePersons } from "../doctor/fleet.ts";
import { examineModel } from "../doctor/model.ts";
import { examineRedis } from "../doctor/redis.ts";
import { toStatement } from "../errors.ts";
import { count, toPrintable } from "../format/text.ts";

/** `drover doctor`. */
export function registerDoctor(program: Command, context: Context, exit: Exit): void {
  program
    .command("doctor")
    .description(
      "look at the settings, Redis, workers, queues, limits, runs that are stuck and the model server, and say what to change; exit code 1 if one is unusable",
    )
    .option("--json", "print JSON")
    .action((options: { json?: boolean }) => act(context, exit, options, () => doctor(context, options.json === true)));
}

async function doctor(context: Context, asJson: boolean): Promise<number> {
  const { output } = context;
  const diagnoses = await examineAll(context);
  const bad = diagnoses.filter(({ state }) => state === "error").length;
  const warnings = diagnoses.filter(({ state }) => state === "warning").length;
  if (asJson) output.json({ ok: bad === 0, checks: diagnoses });
  else {
    const width = Math.max(...diagnoses.map(({ check }) => check.length)) + 2;
    for (const { check, state, detail } of diagnoses) {
      output.line(`${output.mark(colours[state], state.padEnd(9))}${check.padEnd(width)}${toPrintable(detail)}`);
    }
    output.line(`\n${count(bad, "error")}, ${count(warnings, "warning")}`);
  }
  return bad === 0 ? 0 : 1;
}

const colours = { ok: "green", warning: "yellow", error: "red" } as const;

async function examineAll(context: Context): Promise<Diagnosis[]> {
  const config = context.config();
  const settings: Diagnosis = { check: "settings", state: "ok", detail: "the environment and .env fit" };
  const redis = await examineFoundRedis(context, config);
  const isAway = redis.some(({ check, state }) => check === "redis" && state === "error");
  return [settings, ...redis, ...(isAway ? [] : await examineFleet(context)), await examineModel(config)];
}

async function examineFoundRedis(context: Context, config: Config): Promise<Diagnosis[]> {
  try {
    return await examineRedis(await findRedisUrl(context), config.prefix, config.shards, config);
  } catch (error) {
    return [{ check: "redis", state: "error", detail: toStatement(error) }];
  }
}

const runsLookedAt = 500;

async function examineFleet(context: Context): Promise<Diagnosis[]> {
  try {
    return await withDrover(context, async (drover) => {
      const view = await drover.fleet();
      const pages = await Promise.all(
        (["waiting", "queued", "running", "paused"] as const).map((status) =>
          drover.list({ status, limit: runsLookedAt }),
        ),
      );
      const runs = pages.flatMap((page) => page.runs);
      const busy = new Set(runs.filter(({ status }) => status !== "paused").map(({ agent }) => agent));
      return [...judgeFleet(view, busy), judgePersons(runs, view.at)];
    });
  } catch (error) {
    return [{ check: "fleet", state: "error", detail: toStatement(error) }];
  }
}
