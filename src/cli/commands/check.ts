import type { Command } from "commander";
import type { Agent } from "../../define-agent.ts";
import { lintTool } from "../../tools/lint-tool.ts";
import { act, type Exit } from "../command.ts";
import type { Context } from "../context.ts";
import { settingsUnder, toSettingsRows } from "../format/policy.ts";
import { count } from "../format/text.ts";
import { loadAgents } from "../load-agents.ts";

type Options = { json?: boolean };
type Finding = { agent: string; tool?: string; problem: string };

/** `drover check agents.ts`. */
export function registerCheck(program: Command, context: Context, exit: Exit): void {
  program
    .command("check")
    .description(
      "load a file of agents, show what policy holds for its tools and say what models will get wrong; needs no Redis and calls no model",
    )
    .argument("<file>", "module that exports agents")
    .option("--json", "print JSON")
    .action((file: string, options: Options) => act(context, exit, options, () => check(context, file, options)));
}

async function check(context: Context, file: string, options: Options): Promise<number> {
  const { output } = context;
  const agents = await loadAgents(file, context.dir);
  const findings = agents.flatMap(findingsOf);
  const settings = settingsUnder(agents, context.config().policy ?? []);
  const ok = findings.length === 0;
  if (options.json) {
    const list = agents.map(({ name, hash, definition, tools }) => ({
      name,
      hash,
      model: definition.model,
      tools: tools.map((tool) => tool.name),
    }));
    output.json({ ok, agents: list, settings, findings });
    return ok ? 0 : 1;
  }
  for (const { name, definition, tools } of agents) {
    const names =
      tools.length === 0
        ? "no tools"
        : tools
            .map((tool) => `${tool.name} (${tool.answeredBy ? `answered by a ${tool.answeredBy}` : tool.effect})`)
            .join(", ");
    output.line(`${output.mark("bold", name)}  ${definition.model}  ${names}`);
  }
  if (settings.length > 0) output.table(...toSettingsRows(settings));
  for (const { agent, tool, problem } of findings) {
    output.line(`${output.mark("yellow", "warning")}  ${agent}${tool ? `, tool ${tool}` : ""}: ${problem}`);
  }
  output.line(ok ? output.mark("green", "no findings") : count(findings.length, "finding"));
  return ok ? 0 : 1;
}

function findingsOf(agent: Agent): Finding[] {
  const own = agent.definition.instructions.trim() === "" ? ["it has no instructions: say what it is to do"] : [];
  return [
    ...own.map((problem) => ({ agent: agent.name, problem })),
    ...agent.tools.flatMap(lintTool).map((finding) => ({ agent: agent.name, ...finding })),
  ];
}
