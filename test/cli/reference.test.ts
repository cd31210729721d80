// Catches: a page about the commands that is not what the program is.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { makeReference } from "../../src/cli/reference.ts";

test("docs/cli.md is what the program says: npm run docs", () => {
  expect(readFileSync("docs/cli.md", "utf8")).toBe(`${makeReference().trimEnd()}\n`);
});

test("it tells of commands within commands, arguments, options and choices, and of nobody's machine", () => {
  const text = makeReference();
  expect(text).toContain("## drover replay");
  expect(text).toContain("### drover keys create");
  expect(text).toMatch(/^\| `<id>` \| id of the run \|$/m);
  expect(text).toMatch(/^\| `--watch` \| follow the run/m);
  expect(text).not.toContain("demo-worker");
  expect(text).not.toMatch(/\(default: "/);
});
