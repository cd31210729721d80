// Trouble of the outside world as the command line tells it: one clear sentence with what to do, nothing lost.
import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { type FakeAnswer, type FakeOpenAI, startFakeOpenai } from "../support/fake-openai.ts";
import { testPrefix } from "../support/redis.ts";
import { type CliProcess, runDrover, startDrover } from "./run-drover.ts";

let server: FakeOpenAI;
let worker: CliProcess;
let env: Record<string, string>;
let answer: FakeAnswer;

beforeAll(async () => {
  server = await startFakeOpenai({ respond: () => answer });
  env = {
    REDIS_URL: inject("redisUrl"),
    DROVER_PREFIX: testPrefix(),
    OPENAI_BASE_URL: server.url,
    OPENAI_API_KEY: "sk-secret-key",
    DROVER_MODEL: "unheard-of",
  };
  worker = startDrover(["worker", "examples/agents.ts"], { env });
  await worker.untilOutput(/ready/);
});
afterAll(async () => {
  worker.child.kill("SIGTERM");
  const { stdout, stderr } = await worker.ended;
  expect(stdout + stderr).not.toContain("sk-secret-key");
  await server.stop();
});

test.each([
  ["invalid_api_key", 401, /refused the API key \(401\).*OPENAI_API_KEY/],
  ["model_not_found", 404, /unheard-of/],
] as const)(
  "a model server that says %s (%d) fails the run with what to do; it is retried when that is fixed",
  async (code, status, sentence) => {
    const id = `fix-${status}`;
    answer = { status, body: { error: { message: `no: ${code}`, code } } };
    const failed = await runDrover(["start", "assistant", "Hello.", "--id", id, "--watch"], { env });
    expect(failed.stdout.trim().split("\n").at(-1)).toMatch(/failed \(model_error\): /);
    expect(failed.stdout).toMatch(sentence);
    expect(failed.code).toBe(1);
    const { stdout } = await runDrover(["list", "--status", "failed"], { env });
    expect(stdout).toMatch(new RegExp(`^RUN .* REASON\\n[^]*^${id} .*failed \\(model_error\\)`, "m"));
    answer = "Hello to you.";
    const retried = await runDrover(["retry", id, "--watch"], { env });
    expect(retried.stdout).toContain("Hello to you.");
    expect(retried.code).toBe(0);
  },
);

describe("a job that is no run", () => {
  test("is kept with the reason, and its id is free for a corrected one", async () => {
    const connection = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
    const queue = new Queue("runs", { connection, prefix: `${env.DROVER_PREFIX}:q` });
    await queue.add("start", { agent: "assistant", imput: "typo" }, { jobId: "typo-1" });
    const list = async (): Promise<string> => (await runDrover(["list", "--status", "rejected"], { env })).stdout;
    await expect.poll(list, { timeout: 15_000 }).toMatch(/^typo-1 +assistant +rejected .*input/m);
    const shown = await runDrover(["show", "typo-1"], { env });
    expect(shown.stdout).toMatch(/reason +.*imput/);
    answer = "Corrected.";
    await queue.add("start", { agent: "assistant", input: "no typo" }, { jobId: "typo-1" });
    const status = async (): Promise<unknown> =>
      (JSON.parse((await runDrover(["show", "typo-1", "--json"], { env })).stdout) as { status: string }).status;
    await expect.poll(status, { timeout: 15_000 }).toBe("completed");
    await queue.close();
    connection.disconnect();
  });
});
