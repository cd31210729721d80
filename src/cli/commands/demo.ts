import type { Command } from "commander";
import { act, type Exit } from "../command.ts";
import type { Context } from "../context.ts";
import { runDemo } from "../demo/run-demo.ts";
import { runDemoWorker } from "../demo/worker.ts";

/** `drover demo`, and the hidden command by which it starts its workers. */
export function registerDemo(program: Command, context: Context, exit: Exit): void {
  program
    .command("demo")
    .description("see a worker killed in the middle of a step and another finish the run; needs no key")
    .action(() => act(context, exit, {}, () => runDemo(context)));
  program
    .command("demo-worker", { hidden: true })
    .argument("<dir>")
    .action((dir: string) => act(context, exit, {}, () => runDemoWorker(context, dir)));
}
