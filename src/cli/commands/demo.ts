import type { Command } from "commander";
import { act, type Exit } from "../command.ts";
import type { Context } from "../context.ts";

// Loaded when they are asked for: they bring the model client, which the other commands start faster without.
const loadDemo = (): Promise<typeof import("../demo/run-demo.ts")> => import("../demo/run-demo.ts");
const loadWorker = (): Promise<typeof import("../demo/worker.ts")> => import("../demo/worker.ts");

/** `drover demo`, and the hidden command by which it starts its workers. */
export function registerDemo(program: Command, context: Context, exit: Exit): void {
  program
    .command("demo")
    .description("see a worker killed in the middle of a step and another finish the run; needs no key")
    .action(() => act(context, exit, {}, async () => (await loadDemo()).runDemo(context)));
  program
    .command("demo-worker", { hidden: true })
    .argument("<dir>")
    .action((dir: string) => act(context, exit, {}, async () => (await loadWorker()).runDemoWorker(context, dir)));
}
