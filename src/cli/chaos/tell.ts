import type { Hint } from "../../chaos/hints.ts";
import type { PointFaultKind } from "../../chaos/ports.ts";
import type { Tally } from "../../chaos/tally.ts";
import { addTally, noTally } from "../../chaos/tally.ts";
import type { Agent } from "../../define-agent.ts";
import type { Tool } from "../../tools/define-tool.ts";
import type { Output } from "../output.ts";
import { realUnder, type ToolMode } from "./tools.ts";

/** What was played, part by part. */
export type Part = { name: string; tally: Tally };

/** What is said before anything runs. */
type Casting = {
  /** Those that runs are started of, and all of the file. */
  agents: readonly Agent[];
  all: readonly Agent[];
  mode: ToolMode;
  say: (text: string) => void;
  warn: (text: string) => void;
};

/** Says before anything runs whose code will, and who is made up. */
export function tellTools({ agents, all, mode, say, warn }: Casting): void {
  const isReal = realUnder(mode);
  const reached = reachedFrom(agents, all);
  const every = [...new Map(reached.flatMap(({ tools }) => tools).map((tool) => [tool.name, tool])).values()];
  const tools = every.filter(({ answeredBy, child }) => !answeredBy && !child);
  const namesOf = (real: boolean): string[] =>
    tools.filter((tool) => isReal(tool) === real).map(({ name, effect }) => `${name} (${effect})`);
  const [real, stubbed] = [namesOf(true), namesOf(false)];
  if (real.length > 0) say(`Your code is executed, hundreds of times, for: ${real.join(", ")}.`);
  if (stubbed.length > 0) {
    const them = stubbed.length === 1 ? "it" : "them";
    const how = mode === "harmless" ? ` Execute ${them} too: --real-tools.` : "";
    say(`A stub, which does nothing, stands in for: ${stubbed.join(", ")}.${how}`);
  }
  tellChildren(every, reached, say);
  if (every.some(({ answeredBy, approval }) => answeredBy || approval !== "never")) {
    say(
      "People are made up too: most of what asks for approval is approved, the rest denied, and questions are answered.",
    );
  }
  if (mode === "real" && tools.some(({ effect }) => effect !== "read")) {
    warn(
      "WARNING: --real-tools: tools that write are executed for real, hundreds of times. Use accounts made for tests.",
    );
  }
}

function tellChildren(tools: readonly Tool[], reached: readonly Agent[], say: Casting["say"]): void {
  const called = [...new Set(tools.flatMap(({ child }) => child?.agent ?? []))];
  const isThere = (name: string): boolean => reached.some((agent) => agent.name === name);
  const [played, missing] = [called.filter(isThere), called.filter((name) => !isThere(name))];
  if (played.length > 0) say(`Played as runs of their own where others hand work to them: ${played.join(", ")}.`);
  if (missing.length > 0) say(`A stub stands in for agents that this file does not export: ${missing.join(", ")}.`);
}

/** These agents and those that they hand work to. */
function reachedFrom(agents: readonly Agent[], all: readonly Agent[]): Agent[] {
  const reached = new Set(agents);
  // Grows while it is gone through.
  for (const { tools } of reached) {
    const names = tools.flatMap(({ child }) => child?.agent ?? []);
    for (const agent of all) if (names.includes(agent.name)) reached.add(agent);
  }
  return [...reached];
}

const columns: [head: string, key: keyof Tally][] = [
  ["runs", "runs"],
  ["runs handed on to other agents", "children"],
  ["processes killed", "kills"],
  ["processes frozen", "pauses"],
  ["processes told to stop", "stops"],
  ["restarts of Redis", "restarts"],
  ["calls or connections cut off", "outages"],
  ["replies lost after the write", "lostReplies"],
  ["pauses of a run", "runPauses"],
  ["pauses of the whole fleet", "fleetPauses"],
  ["steps delivered again", "redeliveries"],
  ["outcomes told to be unknown", "unknown"],
  ["lost (must be 0)", "lost"],
  ["done or said twice (must be 0)", "duplicated"],
  ["stuck (must be 0)", "stuck"],
  ["effects against policy (must be 0)", "effects"],
  ["ended unlike an undisturbed run (must be 0)", "outcomes"],
];

/** What a fault is, in words. */
export const faultWords: Record<PointFaultKind, string> = {
  kill_before: "the process dies before it",
  kill_after: "the process dies right after it",
  kill_in_flight: "the process dies in its place, while what it had sent before still takes effect",
  reply_lost: "it takes effect and the process is told that Redis cannot be reached",
  sent_twice: "it is sent twice, since the reply to the first was lost",
  refused: "Redis cannot be reached",
  pause_before: "the process is frozen before it, and goes on while another has its work",
  pause_after: "the process is frozen after it, and goes on while another has its work",
};

/** What is no failure, and no proof of the contrary either. */
export function tellHints(hints: readonly Hint[], say: Casting["say"]): void {
  for (const { tool, key } of hints) {
    say(
      `Worth a look: ${tool} is idempotent and returned different results under one key (${key}). That is right if its effect took place once; recordEffect of drover/testing has that judged.`,
    );
  }
}

/** One row for each figure, since they are many; one column for each part. */
export function tellTable(output: Output, parts: readonly Part[]): void {
  const total = parts.reduce((sum, { tally }) => addTally(sum, tally), noTally());
  const all = parts.length > 1 ? [...parts, { name: "in all", tally: total }] : parts;
  const rows = columns.map(([head, key]) => [head, ...all.map(({ tally }) => String(tally[key]))]);
  output.line();
  output.table(["", ...all.map(({ name }) => name)], rows);
  output.line();
}
