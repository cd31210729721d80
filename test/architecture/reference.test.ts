// Would catch a README whose reference lacks what was added since, or names what is no more.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { runStatuses, stopReasons } from "../../src/core/run.ts";

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");
const readme = read("README.md");
const reference = readme.slice(readme.indexOf("\n## Reference"), readme.indexOf("\n## HTTP"));

/** What stands in backticks under a heading, each word of it. */
function wordsUnder(heading: string): Set<string> {
  const from = reference.indexOf(`\n### ${heading}\n`);
  expect(from, `README has no "${heading}"`).toBeGreaterThan(-1);
  const to = reference.indexOf("\n### ", from + 1);
  const part = reference.slice(from, to === -1 ? undefined : to);
  return new Set([...part.matchAll(/`([^`\n]+)`/g)].flatMap(([, code = ""]) => code.match(/\w+/g) ?? []));
}

/** The members that a type of a file declares. */
function membersOf(file: string, type: string): string[] {
  const text = read(file);
  const from = new RegExp(`^export type ${type}\\b[^\\n]*= (?:[^\\n]*& )?\\{$`, "m").exec(text)?.index ?? -1;
  expect(from, `${file} has no type ${type}`).toBeGreaterThan(-1);
  const block = text.slice(from, text.indexOf("\n}", from));
  return [...block.matchAll(/^ {2}(?:readonly )?(\w+)\??[:(<]/gm)].map(([, name = ""]) => name);
}

const tables: [heading: string, file: string, type: string][] = [
  ["`createDrover(options)`", "src/drover.ts", "DroverOptions"],
  ["`createDrover(options)`", "src/drover.ts", "Drover"],
  ["`createDrover(options)`", "src/worker.ts", "WorkOptions"],
  ["`createDrover(options)`", "src/worker.ts", "WorkerHandle"],
  ["`createDrover(options)`", "src/engine/client.ts", "StartOptions"],
  ["`defineAgent(options)`", "src/define-agent.ts", "AgentOptions"],
  ["`defineAgent(options)`", "src/core/agent.ts", "Limits"],
  ["`defineTool(options)`", "src/tools/define-tool.ts", "ToolOptions"],
  ["A run", "src/engine/run-handle.ts", "RunHandle"],
  ["A run", "src/engine/run-view.ts", "RunView"],
];

describe("the README's reference has all of", () => {
  test.for(tables)("%s: %s, %s", ([heading, file, type]) => {
    const words = wordsUnder(heading);
    const members = membersOf(file, type);
    expect(members.length).toBeGreaterThan(4);
    expect(members.filter((name) => !words.has(name))).toEqual([]);
  });

  test("statuses and stop reasons", () => {
    const words = wordsUnder("A run");
    expect([...runStatuses, ...stopReasons].filter((name) => !words.has(name))).toEqual([]);
  });

  test("kinds of events in the feed, and no others", () => {
    const kinds = [...read("src/core/feed-entry.ts").matchAll(/\btype: ((?:"\w+"(?: \| )?)+)/g)].flatMap(
      ([, names = ""]) => names.match(/\w+/g) ?? [],
    );
    expect(kinds.length).toBeGreaterThan(30);
    const words = wordsUnder("A run");
    expect(kinds.filter((name) => !words.has(name))).toEqual([]);
    const listed = /Kinds: ([\s\S]*?) numbered by/.exec(reference)?.[1]?.match(/\w+/g) ?? [];
    expect(listed.filter((name) => !kinds.includes(name))).toEqual([]);
  });
});
