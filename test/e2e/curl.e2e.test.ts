// Catches: an example of the documentation that does not do what it says.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { turnOf } from "../support/fake-openai.ts";
import { startHttpServer } from "../support/http-server.ts";
import { makeWorld } from "../support/world.ts";

const run = promisify(execFile);

/** The shell examples of a page, by the name in the comment before each. */
function examplesOf(page: string): Record<string, string> {
  const text = readFileSync(new URL(`../../${page}`, import.meta.url), "utf8");
  const found = text.matchAll(/<!-- curl: (?<name>\w+) -->\n```sh\n(?<script>[\s\S]*?)```/g);
  return Object.fromEntries([...found].map(({ groups }) => [groups?.name ?? "", groups?.script ?? ""]));
}

const pages = ["docs/http-api.md", "README.md"].filter((page) => Object.keys(examplesOf(page)).length > 0);

test("the examples are there", () => {
  expect(pages).toContain("docs/http-api.md");
});

test.each(pages)("the curl examples of %s run as they are written", async (page) => {
  const examples = examplesOf(page);
  const world = await makeWorld({
    agents: ["assistant"],
    respond: ({ body }) =>
      turnOf(body) === 1 ? { toolCalls: [{ name: "pay", arguments: { note: "42" } }] } : { text: "Refunded." },
  });
  await world.work();
  const { url, key } = await startHttpServer({ redis: world.options.redisUrl, prefix: world.prefix });
  const env = { PATH: process.env.PATH, DROVER_URL: url, DROVER_KEY: key };
  const curl = async (name: string): Promise<string> => {
    const { stdout, stderr } = await run("sh", ["-euc", examples[name] ?? `echo no example ${name} >&2; exit 1`], {
      env,
    });
    expect(stderr).toBe("");
    return stdout;
  };
  expect(JSON.parse(await curl("start"))).toMatchObject({ runId: "order-42", agent: "assistant" });
  const watching = curl("watch");
  await eventually(async () => ((await world.drover.get("order-42").status()).openCalls.length > 0 ? true : undefined));
  expect(JSON.parse(await curl("approve"))).toMatchObject({ runId: "order-42" });
  const events = [...(await watching).matchAll(/^event: (.+)$/gm)].map(([, type]) => type);
  expect(events).toEqual(expect.arrayContaining(["run_created", "approval_asked", "approved", "text", "run_ended"]));
  if (examples.result)
    expect(JSON.parse(await curl("result"))).toMatchObject({ status: "completed", output: "Refunded." });
  expect(JSON.parse(await curl("list"))).toMatchObject({
    runs: [{ runId: "order-42", metadata: { customer: "acme" } }],
  });
  // Sent again, it starts no other run.
  expect(JSON.parse(await curl("start"))).toMatchObject({ runId: "order-42", status: "completed" });
});
