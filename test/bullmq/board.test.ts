import { Queue, UnrecoverableError, Worker } from "bullmq";
import { Redis } from "ioredis";
import { expect, inject, onTestFinished, test } from "vitest";
import { type Board, createBoard } from "../../src/bullmq/board.ts";
import { createRedactor } from "../../src/core/redact.ts";
import { deletePrefix, testPrefix } from "../support/redis.ts";

type OpenBoard = { board: Board; queue: Queue; ask: (path: string, init?: RequestInit) => Promise<Response> };

async function openBoard(): Promise<OpenBoard> {
  const url = inject("redisUrl");
  const prefix = testPrefix();
  const connection = new Redis(url, { maxRetriesPerRequest: null });
  const queue = new Queue("runs", { connection, prefix: `${prefix}:q` });
  await queue.add("start", { agent: "a", input: "the key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJ" });
  const board = createBoard({
    connection,
    queues: async () => [{ name: "runs", prefix: `${prefix}:q` }],
    basePath: "/ui/queues",
    redactor: createRedactor(),
  });
  onTestFinished(async () => {
    await board.close();
    await queue.close();
    connection.disconnect();
    await deletePrefix(url, prefix);
  });
  return { board, queue, ask: (path, init) => board.fetch(new Request(`http://localhost${path}`, init)) };
}

test("shows the raw queues, with and without a slash at the end, and nothing from elsewhere", async () => {
  const { ask } = await openBoard();
  for (const path of ["/ui/queues", "/ui/queues/"]) {
    const response = await ask(path);
    expect(response.status).toBe(200);
    expect(response.headers.get("content-security-policy")).toContain("default-src 'none'");
    const page = await response.text();
    expect(page).toContain('<base href="/ui/queues/"');
    expect(page).not.toMatch(/https?:\/\//);
  }
});

test("serves its files, and no other file", async () => {
  const { ask } = await openBoard();
  const page = await (await ask("/ui/queues")).text();
  const script = /src="(static\/js\/[^"]+)"/.exec(page)?.[1];
  const served = await ask(`/ui/queues/${script}`);
  expect(served.status).toBe(200);
  expect(served.headers.get("content-type")).toContain("text/javascript");
  expect((await ask("/ui/queues/static/%2e%2e%2f%2e%2e/package.json")).status).toBe(404);
  expect((await ask("/ui/queues/static/js/none.js")).status).toBe(404);
});

test("tells what is in a queue with secrets left out", async () => {
  const { ask } = await openBoard();
  const response = await ask("/ui/queues/api/queues?activeQueue=runs&status=waiting&page=1");
  expect(response.status).toBe(200);
  const text = await response.text();
  expect(text).toContain('"name":"runs"');
  expect(text).toContain("the key is [redacted");
  expect(text).not.toContain("sk-proj-abc");
});

test("leaves secrets out of what a failure says, and of logs", async () => {
  const { ask, queue } = await openBoard();
  const secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJ";
  const worker = new Worker(
    "runs",
    async (job) => {
      await job.log(`sent with ${secret}`);
      throw new UnrecoverableError(`refused: ${secret}`);
    },
    { connection: queue.opts.connection as Redis, prefix: queue.opts.prefix ?? "" },
  );
  await new Promise((resolve) => worker.on("failed", resolve));
  await worker.close();
  const [job] = await queue.getFailed();
  const failed = await (await ask("/ui/queues/api/queues?activeQueue=runs&status=failed&page=1")).text();
  expect(failed).toContain("refused: [redacted");
  const logs = await (await ask(`/ui/queues/api/queues/runs/${job?.id}/logs`)).text();
  expect(logs).toContain("sent with [redacted");
  expect(failed + logs).not.toContain("sk-proj-abc");
});

test("changes nothing, whatever is asked of it", async () => {
  const { ask } = await openBoard();
  for (const [method, path] of [
    ["PUT", "/ui/queues/api/queues/runs/pause"],
    ["PUT", "/ui/queues/api/queues/runs/clean/completed"],
    ["POST", "/ui/queues/api/queues/runs/add"],
    ["DELETE", "/ui/queues/api/queues/runs/1"],
  ] as const) {
    const response = await ask(path, { method });
    expect([response.status, response.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
  }
});

test("a path that cannot be read is as good as none", async () => {
  const { ask } = await openBoard();
  for (const path of ["/ui/queues/static/%", "/ui/queues/static/%E0%A4%A", "/ui/queues/static/..%2f..%2fpackage.json"])
    expect([path, (await ask(path)).status]).toEqual([path, 404]);
});
