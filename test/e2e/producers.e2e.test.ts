// Catches: input of strangers that stops a worker or vanishes, and jobs that were lost, kept or repeated by the queue.
import { Queue } from "bullmq";
import { describe, expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import type { FakeRequest } from "../support/fake-openai.ts";
import { jobsAre, makeWorld, runIdOf, type World } from "../support/world.ts";

const answer = (request: FakeRequest): string => `answer to ${runIdOf(request)}`;
const noJobs = { active: 0, delayed: 0, waiting: 0 };

describe.each([
  ["as they come", false],
  ["with every step redelivered", true],
])("steps %s", (_mode, redeliver) => {
  describe("a producer that knows nothing of us but BullMQ", () => {
    test("[G7] starts runs", async () => {
      const world = await makeWorld({ redeliver, respond: answer });
      await world.work();
      const url = new URL(world.options.redisUrl);
      const queue = new Queue("runs", {
        connection: { host: url.hostname, port: Number(url.port) },
        prefix: `${world.prefix}:q`,
      });
      const traceparent = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;
      const input = [{ role: "user", content: "order-2 go" }];
      await queue.add("start", { agent: "e2e", input: "order-1 go" }, { jobId: "order-1" });
      await queue.add("start", { agent: "e2e", input, metadata: { customer: 7 }, traceparent }, { jobId: "order-2" });
      for (const id of ["order-1", "order-2"]) {
        const run = await eventually(async () => {
          const handle = world.drover.get(id);
          return (await handle.status().catch(() => undefined)) && handle;
        });
        expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({
          status: "completed",
          output: `answer to ${id}`,
        });
      }
      expect((await world.drover.get("order-2").status()).traceId).toBe("a".repeat(32));
      await jobsAre(world, noJobs);
      // The same again, while its run is kept: the same run, and nothing is done again.
      await queue.add("start", { agent: "e2e", input: "order-1 go" }, { jobId: "order-1" });
      await jobsAre(world, noJobs);
      expect(world.server.requests.length).toBe(2);
      await queue.close();
    });

    const bad: [what: string, name: string, data: unknown, reason: RegExp][] = [
      ["another job name", "begin", { agent: "e2e", input: "go" }, /job name: expected "start", received "begin"/],
      ["no agent", "start", { input: "go" }, /agent: expected string, received nothing/],
      ["no input", "start", { agent: "e2e" }, /input: expected .*received nothing/],
      ["input of a wrong type", "start", { agent: "e2e", input: 7 }, /input: expected .*received 7/],
      ["an unknown field", "start", { agent: "e2e", input: "go", colour: "red" }, /unknown field, received "colour"/],
      ["a limit that is none", "start", { agent: "e2e", input: "go", limits: { maxTurns: 0 } }, /limits\.maxTurns/],
      ["a payload over the limit", "start", { agent: "e2e", input: "x".repeat(1_100_000) }, /at most 1048576 bytes/],
      ["no object", "start", [1, 2], /data: expected/],
      ["nothing at all", "start", null, /data: expected/],
    ];

    test("[G7] has malformed jobs kept as rejected with the reason, and their ids stay free", async () => {
      const world = await makeWorld({ redeliver, respond: answer });
      const worker = await world.work();
      const queue = world.plainQueue("runs");
      for (const [index, [, name, data]] of bad.entries()) await queue.add(name, data, { jobId: `bad-${index}` });
      await queue.add("start", { agent: "e2e", input: "go" }, { jobId: "not a run id" });
      await jobsAre(world, noJobs);
      const { runs } = await world.drover.list({ status: "rejected" });
      expect(runs.length).toBe(bad.length + 1);
      for (const [index, [what, , , reason]] of bad.entries()) {
        const view = runs.find(({ runId }) => runId === `bad-${index}`);
        expect(`${what}: ${view?.error?.message}`).toMatch(reason);
      }
      expect(runs.find(({ runId }) => runId.startsWith("job-not-a-run-id"))?.error?.message).toMatch(
        /job id: expected/,
      );
      // Corrected under the same ids they run, beside a good one.
      for (const index of bad.keys()) {
        await queue.add("start", { agent: "e2e", input: `bad-${index} go` }, { jobId: `bad-${index}` });
      }
      for (const index of bad.keys()) {
        const run = world.drover.get(`bad-${index}`);
        await eventually(async () => ((await run.status()).status === "completed" ? true : undefined));
        expect(await run.result()).toMatchObject({ output: `answer to bad-${index}` });
      }
      expect(worker.exited()).toBe(false);
    });

    test("[G7] finds its id taken by another run: that run is left alone and the job is kept as rejected", async () => {
      const world = await makeWorld({ redeliver, respond: answer });
      await world.work();
      const run = await world.drover.start("e2e", "taken go", { runId: "taken" });
      await run.result({ timeoutMs: 20_000 });
      await world.plainQueue("runs").add("start", { agent: "e2e", input: "something else" }, { jobId: "taken" });
      await jobsAre(world, noJobs);
      expect(await run.result()).toMatchObject({ status: "completed", output: "answer to taken" });
      const { runs } = await world.drover.list({ status: "rejected" });
      expect(runs.map(({ error }) => error?.message)).toEqual([expect.stringMatching(/exists already/)]);
    });
  });

  test("[G7] a run of an agent that no worker knows is parked visibly, and goes on when one that knows it starts", async () => {
    const world = await makeWorld({ redeliver, respond: answer });
    const worker = await world.work();
    const run = await world.drover.start("stranger", "stranger-1 go", { runId: "stranger-1" });
    const held = await eventually(async () => ((await readHolds(world, run.id)) > 0 ? await run.status() : undefined));
    expect(held).toMatchObject({ turns: 0 });
    expect(world.server.requests).toEqual([]);
    const waiting = await eventually(async () => {
      const view = await run.status();
      return view.status === "waiting" ? view : undefined;
    }, 30_000);
    expect(waiting.waitingFor).toMatch(/No worker here knows the agent "stranger"/);
    worker.kill9();
    await world.work({ agents: ["e2e", "stranger"] });
    expect(await run.result({ timeoutMs: 30_000 })).toMatchObject({
      status: "completed",
      output: "answer to stranger-1",
    });
  });

  async function readHolds(world: World, runId: string): Promise<number> {
    const entries = await world.redis.llen(world.keys.run(runId).feed);
    return entries - 1; // all but the first tell of a hold, as long as nobody knows the agent
  }
});
