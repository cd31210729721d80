// Catches: a snippet of docs/openai.md that does not do what the page says.
import { execFile } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import type { FakeReply, FakeRequest } from "../support/fake-openai.ts";
import { startServerProcess } from "../support/worker-process.ts";
import { makeWorld } from "../support/world.ts";

const run = promisify(execFile);
const page = readFileSync(new URL("../../docs/openai.md", import.meta.url), "utf8");
const snippets = [...page.matchAll(/<!-- (?<kind>node|curl): (?<name>\w+) -->\n```\w+\n(?<code>[\s\S]*?)\n```/g)].map(
  ({ groups = {} }) => ({ kind: groups.kind, name: groups.name ?? "", code: groups.code ?? "" }),
);

const printed: Record<string, RegExp> = {
  background: /^completed Take one\.$/m,
  resume: /^Take one\.\ncompleted$/m,
  keyed: /^completed resp_[0-9a-f]{40}$/m,
  tools: /^It is sunny in Oslo\.$/m,
  create: /"status":"completed".*Take one\./,
};

function respond({ body }: FakeRequest): FakeReply {
  const last = body.messages.at(-1);
  if (last?.role === "tool") return { text: `It is ${String(last.content)}.` };
  if (!String(last?.content).startsWith("Weather")) return { text: "Take one." };
  return { toolCalls: [{ name: "get_weather", arguments: { city: "Oslo" } }] };
}

test("every snippet of the page is run here", () => {
  expect(snippets.map(({ name }) => name).toSorted()).toEqual(Object.keys(printed).toSorted());
});

test.each(snippets)("$kind: $name", async ({ kind, name, code }) => {
  const world = await makeWorld({ respond, agents: ["assistant"] });
  const [server] = await Promise.all([startServerProcess(world.options), world.work()]);
  const { PATH = "", HOME = "" } = process.env;
  const env = { PATH, HOME, OPENAI_BASE_URL: `${server.url}/v1`, OPENAI_API_KEY: "none" };
  // Below the checkout, where the client is found.
  const file = new URL(`../../node_modules/.drover-snippet-${name}.mjs`, import.meta.url).pathname;
  writeFileSync(file, code);
  onTestFinished(() => rmSync(file, { force: true }));
  const { stdout } = await (kind === "node"
    ? run(process.execPath, [file], { env })
    : run("bash", ["-ec", code], { env }));
  expect(stdout).toMatch(printed[name] ?? /$^/);
});
