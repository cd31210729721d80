import type { Command } from "commander";
import { type ChaosCommand, chaosParts } from "../chaos/command.ts";
import { act, type Exit } from "../command.ts";
import type { Context } from "../context.ts";
import { toInteger, toOneOf } from "../options.ts";

// Loaded when it is asked for: it brings the engine over memory and all that starts processes.
const load = (): Promise<typeof import("../chaos/run-chaos.ts")> => import("../chaos/run-chaos.ts");
const loadWorker = (): Promise<typeof import("../chaos/chaos-worker.ts")> => import("../chaos/chaos-worker.ts");

const day = 24 * 60;
const defaults = { minutes: 1, runs: 60, workers: 3 };

/** `drover chaos agents.ts`, and the hidden command by which it starts its workers. */
export function registerChaos(program: Command, context: Context, exit: Exit): void {
  program
    .command("chaos")
    .description(
      "run your agents with a made-up model while workers and Redis are killed, frozen and cut off, and check that nothing is lost or done twice; needs no key and touches no Redis of yours",
    )
    .argument("<file>", "module that exports agents")
    .option("--seed <n>", "play again what a seed played (default: a new one)", toInteger(0, 4_294_967_295))
    .option("--minutes <n>", "how long each of its two parts may take (default: 1)", toInteger(1, day))
    .option("--runs <n>", "runs of the second part, in worker processes (default: 60)", toInteger(1, 100_000))
    .option("--workers <n>", "worker processes (default: 3)", toInteger(1, 64))
    .option("--agent <agent>", "only this agent of the file")
    .option(
      "--only <part>",
      "points: in memory, a fault at every commit; processes: kill -9 and a real Redis",
      toOneOf(chaosParts),
    )
    .option("--script <file>", "JSON: what the model says, in place of calls that are made up from the tools' schemas")
    .option("--schedule <file>", "play only these faults: the file that a failure was written to")
    .option("--real-tools", "execute the code of tools that write, too; by default of those that only read")
    .option("--stub-tools", "execute no tool's code")
    .option("--json", "print JSON")
    .action((file: string, given: Partial<ChaosCommand>) =>
      act(context, exit, given, async () => (await load()).runChaos(context, file, { ...defaults, ...given })),
    );
  program
    .command("chaos-worker", { hidden: true })
    .argument("<file>")
    .option("--tools <which>", "", "harmless")
    .option("--script <file>")
    .action((file: string, given: { tools: string; script?: string }) =>
      act(context, exit, {}, async () => (await loadWorker()).runWorker(context, file, given)),
    );
}
