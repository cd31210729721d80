import { expect, test } from "vitest";
import { lintTool } from "../../../src/tools/lint-tool.ts";
import { askPerson } from "../../../src/tools/stock/ask-person.ts";
import { calculator } from "../../../src/tools/stock/calculator.ts";
import { currentTime } from "../../../src/tools/stock/current-time.ts";
import { httpFetch } from "../../../src/tools/stock/http-fetch.ts";
import { readFile } from "../../../src/tools/stock/read-file.ts";
import { runCommand } from "../../../src/tools/stock/run-command.ts";
import { writeFile } from "../../../src/tools/stock/write-file.ts";
import { createToolCaller } from "../../../src/tools/tool-caller.ts";

const tools = [
  askPerson(),
  calculator(),
  currentTime(),
  httpFetch({ allowHosts: ["*.example.com"] }),
  httpFetch({ allowHosts: ["*"], methods: ["POST"] }),
  readFile({ root: "." }),
  writeFile({ root: "." }),
  runCommand({ commands: ["ls"], cwd: "." }),
];

test.each(tools.map((tool) => [tool.name, tool] as const))("%s passes its own check", (_name, tool) => {
  expect(lintTool(tool)).toEqual([]);
  for (const key of Object.keys(tool.parameters.schema.properties as object)) {
    expect(tool.description).toContain(`${key}:`);
  }
  expect(tool.description).toContain("Format:");
});

test.each(tools.map((tool) => [tool.name, tool] as const))("the example of %s can be called", (_name, tool) => {
  const example = /Example: (\{.*\})$/s.exec(tool.description)?.[1] ?? "";
  const call = { callId: "call-1-1", id: "a", name: tool.name, arguments: example };
  expect(createToolCaller([tool]).plan(call).type).toBe(tool.answeredBy ? "answer" : "run");
});
