import type { Command } from "commander";
import { act, type Exit } from "../command.ts";
import { type Context, findRedisUrl } from "../context.ts";
import { type Diagnosis, examineModel, examineRedis } from "../doctor.ts";
import { toStatement } from "../errors.ts";
import { count } from "../format/text.ts";

/** `drover doctor`. */
export function registerDoctor(program: Command, context: Context, exit: Exit): void {
  program
    .command("doctor")
    .description("look at the settings, Redis, the queues and the model server; exit code 1 if one is unusable")
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
    for (const { check, state, detail } of diagnoses) {
      output.line(`${output.mark(colours[state], state.padEnd(8))}${check.padEnd(18)}${detail}`);
    }
    output.line(`\n${count(bad, "error")}, ${count(warnings, "warning")}`);
  }
  return bad === 0 ? 0 : 1;
}

const colours = { ok: "green", warning: "yellow", error: "red" } as const;

async function examineAll(context: Context): Promise<Diagnosis[]> {
  const config = context.config();
  const settings: Diagnosis = { check: "settings", state: "ok", detail: "the environment and .env fit" };
  return [settings, ...(await examineFoundRedis(context, config.prefix)), await examineModel(config)];
}

async function examineFoundRedis(context: Context, prefix: string): Promise<Diagnosis[]> {
  try {
    return await examineRedis(await findRedisUrl(context), prefix);
  } catch (error) {
    return [{ check: "redis", state: "error", detail: toStatement(error) }];
  }
}
