// Images and files: in the input, and in what tools return. A model that takes them sees them; to another one they are
// described in text, so that the same agent works with both.
import { deepEqual, equal, match, ok } from "node:assert/strict";
import { z } from "zod";
import {
  type ContentPart,
  createDrover,
  defineAgent,
  defineTool,
  filePart,
  imagePart,
  openai,
  textPart,
} from "../src/index.ts";
import { type FakeBody, startFakeOpenai } from "../test/support/fake-openai.ts";
import { makePng } from "../test/support/png.ts";
import { findRedis } from "./support/redis.ts";

// A server in this process: it asks for a chart, then answers. With `eyes: false` it refuses images as a real one does.
async function serveModel({
  eyes,
}: {
  eyes: boolean;
}): Promise<{ url: string; asked: FakeBody[]; stop: () => Promise<void> }> {
  const asked: FakeBody[] = [];
  const server = await startFakeOpenai({
    respond: ({ body }) => {
      if (!eyes && JSON.stringify(body).includes('"image_url"')) {
        const message = "Invalid content type. image_url is only supported by certain models.";
        return { status: 400, body: { error: { message } } };
      }
      asked.push(body);
      const isFirst = body.messages.every(({ role }) => role !== "tool");
      return isFirst ? { toolCalls: [{ name: "get_chart", arguments: { year: 2026 } }] } : "Sales went up.";
    },
  });
  return { url: server.url, asked, stop: server.stop };
}

const chart = makePng(320, 200); // stands for what a plotting library gives: bytes
const getChart = defineTool({
  name: "get_chart",
  description: 'Chart of the sales of a year. Example: {"year":2026}',
  parameters: z.object({ year: z.int().describe("The year, e.g. 2026") }),
  effect: "read",
  // Bytes of an image become an image; imagePart and filePart say more, such as `detail`.
  execute: ({ year }) => ({ title: `Sales of ${year}`, chart }),
});

const [seeing, blind] = [await serveModel({ eyes: true }), await serveModel({ eyes: false })];
const analyst = (name: string, baseURL: string): ReturnType<typeof defineAgent> =>
  defineAgent({
    name,
    instructions: "You read charts and tables.",
    model: openai({ model: "a-model", baseURL, apiKey: "none" }),
    tools: [getChart],
  });
const agents = [analyst("seeing", seeing.url), analyst("blind", blind.url)];
const drover = createDrover({ redis: await findRedis(), agents });
await drover.work();

const table = filePart(Buffer.from("month,sales\n1,10\n2,14"), { filename: "sales.csv" });
const content = [textPart("How do these compare?"), imagePart(makePng(640, 480), { detail: "low" }), table];
for (const agent of ["seeing", "blind"]) {
  const run = await drover.start(agent, [{ role: "user", content }]);
  const { status, output } = await run.result({ timeoutMs: 30_000 });
  console.log(`${agent}: ${status}, ${String(output)}`);
  equal(status, "completed");
}

const show = (value: unknown): string => JSON.stringify(value);
const isImage = (part: ContentPart): boolean => part.type === "image_url";
const [input, result, shown] = [1, 3, 4].map((index) => seeing.asked[1]?.messages[index]);
equal([input?.content].flat().filter((part) => isImage(part as ContentPart)).length, 1);
match(show(input), /File sales.csv \(text\/csv\)/); // text is text for every model
// A tool message holds only text: what the tool brought is named there, and shown after the last result of the turn.
match(show(result), /\[image 1 of call get_chart: image\/png, 320x200, .*: shown below\]/);
equal(shown?.role, "user");
ok(show(shown).includes(chart.toString("base64")));

const told = blind.asked[1]?.messages ?? [];
console.log(String(told[1]?.content).split("\n\n")[1]);
match(show(told[1]), /\[image: image\/png, 640x480, .*: you cannot see it\]/);
deepEqual(
  told.map(({ role }) => role),
  ["system", "user", "assistant", "tool"],
);
await drover.close();
await Promise.all([seeing.stop(), blind.stop()]);
