import type { Tally } from "../../chaos/tally.ts";
import { addTally, noTally } from "../../chaos/tally.ts";
import type { Agent } from "../../define-agent.ts";
import type { Output } from "../output.ts";
import { realUnder, type ToolMode } from "./tools.ts";

/** What was played, part by part. */
export type Part = { name: string; tally: Tally };

/** Says before anything runs whose code will. */
export function tellTools(
  agents: readonly Agent[],
  mode: ToolMode,
  say: (text: string) => void,
  warn: (text: string) => void,
): void {
  const isReal = realUnder(mode);
  const tools = [...new Map(agents.flatMap(({ tools: own }) => own).map((tool) => [tool.name, tool])).values()].filter(
    ({ answeredBy }) => !answeredBy,
  );
  const namesOf = (real: boolean): string =>
    tools
      .filter((tool) => isReal(tool) === real)
      .map(({ name, effect }) => `${name} (${effect})`)
      .join(", ");
  const [real, stubbed] = [namesOf(true), namesOf(false)];
  if (real !== "") say(`Your code is executed, hundreds of times, for: ${real}.`);
  if (stubbed !== "")
    say(`A stub stands in for: ${stubbed}.${mode === "harmless" ? " Execute them too: --real-tools." : ""}`);
  if (mode === "real" && tools.some(({ effect }) => effect !== "read")) {
    warn(
      "WARNING: --real-tools: tools that write are executed for real, hundreds of times. Use accounts made for tests.",
    );
  }
}

const columns: [head: string, keys: (keyof Tally)[]][] = [
  ["runs", ["runs"]],
  ["kills", ["kills"]],
  ["pauses", ["pauses"]],
  ["stops", ["stops"]],
  ["restarts", ["restarts"]],
  ["outages", ["outages"]],
  ["lost replies", ["lostReplies"]],
  ["redeliveries", ["redeliveries"]],
  ["unknown told", ["unknown"]],
  ["lost", ["lost"]],
  ["duplicated", ["duplicated"]],
  ["stuck", ["stuck"]],
  ["effects outside policy", ["effects"]],
  ["other ends", ["outcomes"]],
];

/** One row for each figure, since they are many; one column for each part. */
export function tellTable(output: Output, parts: readonly Part[]): void {
  const total = parts.reduce((sum, { tally }) => addTally(sum, tally), noTally());
  const all = parts.length > 1 ? [...parts, { name: "in all", tally: total }] : parts;
  const rows = columns.map(([head, keys]) => [
    head,
    ...all.map(({ tally }) => String(keys.reduce((sum, key) => sum + tally[key], 0))),
  ]);
  output.line();
  output.table(["", ...all.map(({ name }) => name)], rows);
  output.line();
}
