import { setTimeout as sleep } from "node:timers/promises";
import tab from "@bomb.sh/tab/commander";
import type { Command } from "commander";
import { type Context, withDrover } from "./context.ts";
import { toOneLine } from "./format/text.ts";

/** What a shell may be offered: a value, and a few words on it. */
type Offer = [value: string, about: string];

/** By the name of the argument or option that takes it. */
const kinds: Record<string, "runs" | "agents"> = { id: "runs", agent: "agents" };
const runsOffered = 20;
/** Nobody waits longer for a list; there are names and options then. */
const mostMs = 1_500;

/** Adds `drover completion SHELL`, and the hidden command by which that shell asks what may follow. */
export async function addCompletion(program: Command, context: Context, argv: readonly string[]): Promise<void> {
  const root = tab(program, { completionCommandName: "completion" });
  program.commands
    .find((command) => command.name() === "completion")
    ?.description(
      "print what makes a shell complete commands, options, agents and run ids: source <(drover completion bash)",
    );
  if (argv[0] !== "complete") return;
  const offers = await readOffers(context, argv);
  for (const command of root.commands.values()) {
    for (const [name, taker] of [...command.arguments, ...command.options]) {
      const kind = kinds[name];
      if (kind === undefined || (kind === "runs" && taker === command.options.get(name))) continue;
      taker.handler = (offer) => {
        for (const [value, about] of offers[kind]) offer(value, about);
      };
    }
  }
}

type Offers = Record<"runs" | "agents", Offer[]>;
const none: Offers = { runs: [], agents: [] };

/** The newest runs and the agents that are known; nothing where they cannot be read at once. */
async function readOffers(context: Context, argv: readonly string[]): Promise<Offers> {
  // Commands and options need no Redis.
  if (argv.length < 4 || argv.at(-1)?.startsWith("-")) return none;
  const read = withDrover(context, async (drover): Promise<Offers> => {
    const [{ runs }, { agents }] = await Promise.all([drover.list({ limit: runsOffered }), drover.fleet()]);
    return {
      runs: runs.map(({ runId, status, agent }) => [runId, toOneLine(`${status}, ${agent}`, 60)]),
      agents: agents
        .filter(({ name }) => /^[\w.-]+$/.test(name))
        .map(({ name, model }) => [name, toOneLine(model, 60)]),
    };
  });
  return Promise.race([read.catch(() => none), sleep(mostMs, none, { ref: false })]);
}
