// Catches: input of strangers that stops a worker or vanishes, and jobs that were lost, kept or repeated by the queue.
import { Queue } from "bullmq";
import { describe, expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { problemsOf, textsOf } from "../support/transcript.ts";
import { jobsAre, makeWorld, readFeed, runIdOf, type World } from "../support/world.ts";

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
    const entries = await world.redis.xlen(world.keys.run(runId).feed);
    return entries - 1; // all but the first tell of a hold, as long as nobody knows the agent
  }

  describe("the queue", () => {
    test("[G2] may lose a job: the sweeper finds what the run owes within some ten seconds", async () => {
      const world = await makeWorld({ redeliver, respond: answer });
      const run = await world.drover.start("e2e", "lost-job go", { runId: "lost-job" });
      expect(await world.plainQueue("model").remove("1-0-lost-job")).toBe(1);
      const startedAt = Date.now();
      await world.work();
      expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed" });
      const tookMs = Date.now() - startedAt;
      process.stdout.write(`lost enqueue: repaired and completed after ${tookMs} ms\n`);
      expect(tookMs).toBeLessThan(15_000);
    });

    test("[G1] [G2] may deliver steps of the past again: they do nothing (Q03b)", async () => {
      const held = Promise.withResolvers<void>();
      const world = await makeWorld({
        redeliver,
        respond: async ({ body }) => {
          const turn = turnOf(body);
          if (turn === 5) await held.promise;
          const toolCalls = [
            { name: "look", arguments: { note: `a${turn}` } },
            { name: "post", arguments: { note: `b${turn}` } },
          ];
          return turn === 6 ? { text: "end" } : { text: `turn ${turn}`, toolCalls };
        },
      });
      await world.work();
      const run = await world.drover.start("e2e", "replay-1 go", { runId: "replay-1" });
      await world.server.received(4); // turn 5 is being answered
      const requests = world.server.requests.length;
      const executions = world.ledger.entries().length;
      // Every step there can have been, but for the one at work.
      const working = (await world.plainQueue("model").getActive()).map(({ id }) => id);
      const revision = Number(await world.redis.hget(world.keys.run(run.id).head, "rev"));
      for (let owedAt = 1; owedAt <= revision; owedAt += 1) {
        for (const [queue, name, index] of [
          ["model", "model", 0],
          ["tools", "tool", 1],
          ["tools", "tool", 2],
        ] as const) {
          const jobId = `${owedAt}-${index}-${run.id}`;
          if (working.includes(jobId)) continue;
          await world.plainQueue(queue).add(name, { runId: run.id, owedAt, index }, { jobId });
        }
      }
      await jobsAre(world, { ...noJobs, active: 1 });
      expect(world.server.requests.length).toBe(requests);
      expect(world.ledger.entries().length).toBe(executions);
      held.resolve();
      expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed", output: "end", turns: 6 });
      const transcript = await run.transcript();
      expect(problemsOf(transcript)).toEqual([]);
      expect(textsOf(transcript)).toEqual(["turn 1", "turn 2", "turn 3", "turn 4", "turn 5", "end"]);
      expect(world.ledger.entries().length).toBe(10);
    });

    test("[G2] may lose all its scripts in the middle of a run (Q06)", async () => {
      const turns = 20;
      const world: World = await makeWorld({
        redeliver,
        respond: async ({ body }): Promise<FakeReply> => {
          await world.redis.script("FLUSH");
          const toolCalls = ["look", "put"].map((name) => ({ name, arguments: { note: `a${turnOf(body)}` } }));
          return turnOf(body) === turns ? { text: "end" } : { toolCalls };
        },
        maxTurns: turns,
      });
      await world.work();
      const run = await world.drover.start("e2e", "flush-1 go", { runId: "flush-1" });
      expect(await run.result({ timeoutMs: 30_000 })).toMatchObject({ status: "completed", turns });
      expect(problemsOf(await run.transcript())).toEqual([]);
      expect((await readFeed(world, run.id)).filter(({ type }) => type === "model_answered").length).toBe(turns);
    });
  });
});
