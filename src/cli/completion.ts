import { setTimeout as sleep } from "node:timers/promises";
import type { Argument, Option } from "@bomb.sh/tab";
import tab from "@bomb.sh/tab/commander";
import type { Command } from "commander";
import { runStatuses } from "../core/run.ts";
import type { RunHandle } from "../engine/run-handle.ts";
import { type Context, withDrover } from "./context.ts";
import { toOneLine } from "./format/text.ts";

/** What a shell may be offered: a value, and a few words on it. */
type Offer = [value: string, about: string];

type Kind = "runs" | "agents" | "calls" | "statuses";
/** By the name of the argument or option that takes it. An option `--id` names what is not there yet. */
const ofArguments: Record<string, Kind> = { id: "runs", agent: "agents", call: "calls" };
const ofOptions: Record<string, Kind> = { agent: "agents", status: "statuses" };
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
    for (const [name, taker] of command.arguments) offerTo(taker, offers, ofArguments[name]);
    for (const [name, taker] of command.options) offerTo(taker, offers, ofOptions[name]);
  }
}

function offerTo(taker: Argument | Option, offers: Offers, kind: Kind | undefined): void {
  if (kind === undefined) return;
  taker.handler = (offer) => {
    for (const [value, about] of offers[kind]) offer(value, about);
  };
}

type Offers = Record<Kind, Offer[]>;
const statuses = runStatuses.map((status): Offer => [status, ""]);
const none: Offers = { runs: [], agents: [], calls: [], statuses };

/** The newest runs, the agents that are known, the calls that wait for a person; nothing where Redis does not answer. */
async function readOffers(context: Context, argv: readonly string[]): Promise<Offers> {
  // `complete -- COMMAND ID WORD`: commands and options need no Redis.
  const [command = "", id = ""] = argv.slice(2);
  if (argv.length < 4 || argv.at(-1)?.startsWith("-")) return none;
  const read = withDrover(context, async (drover): Promise<Offers> => {
    if (takesCall.has(command) && argv.length > 4) return { ...none, calls: await readCalls(drover.get(id)) };
    const [{ runs }, { agents }] = await Promise.all([drover.list({ limit: runsOffered }), drover.fleet()]);
    return {
      ...none,
      runs: runs.map(({ runId, status, agent }) => [runId, toOneLine(`${status}, ${agent}`, 60)]),
      agents: agents
        .filter(({ name }) => /^[\w.-]+$/.test(name))
        .map(({ name, model }) => [name, toOneLine(model, 60)]),
    };
  });
  return Promise.race([read.catch(() => none), sleep(mostMs, none, { ref: false })]);
}

const takesCall: ReadonlySet<string> = new Set(["approve", "deny", "answer"]);

async function readCalls(run: RunHandle): Promise<Offer[]> {
  const { openCalls } = await run.status();
  const waiting = openCalls.filter(({ state }) => state === "approval" || state === "asking" || state === "answer");
  return waiting.map(({ callId, tool, description, question }) => [
    callId,
    toOneLine(`${tool}: ${question ?? description ?? ""}`, 60),
  ]);
}
