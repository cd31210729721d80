// Catches: an approved act that is lost or doubled with its worker, a decision that comes too late and counts, a dry run
// that acts, and a rule of the operators that does not reach the workers.
import { describe, expect, test } from "vitest";
import type { RunView } from "../../src/engine/run-view.ts";
import { type CliResult, runDrover } from "../cli/run-drover.ts";
import { eventually } from "../support/eventually.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { problemsOf } from "../support/transcript.ts";
import { startCliWorker } from "../support/worker-process.ts";
import { jobsAre, makeWorld, type World } from "../support/world.ts";

const calling =
  (...names: string[]) =>
  ({ body }: FakeRequest): FakeReply =>
    turnOf(body) === 1 ? { toolCalls: names.map((name) => ({ name, arguments: { note: "a" } })) } : { text: "settled" };

/** The command line, as a person in another terminal has it. */
const cli = (world: World, ...args: string[]): Promise<CliResult> =>
  runDrover(args, { env: { REDIS_URL: world.options.redisUrl, DROVER_PREFIX: world.prefix } });

async function waiting(world: World, runId: string): Promise<RunView> {
  const run = world.drover.get(runId);
  return eventually(async () => {
    const view = await run.status();
    return view.status === "waiting" ? view : undefined;
  });
}

describe.each([
  ["as they come", false],
  ["with every step redelivered", true],
])("steps %s", (_title, redeliver) => {
  test("[G4] what was approved from another process runs once, though the worker dies in between", async () => {
    const world = await makeWorld({ redeliver, respond: calling("pay") });
    const worker = await world.work();
    const run = await world.drover.start("e2e", "go", { runId: "approved-1", by: "zoe" });
    const [call] = (await waiting(world, run.id)).openCalls;
    worker.stop(); // It hears of the approval no more.
    const approve = ["approve", run.id, "call-1-1", "--hash", call?.argumentsHash ?? "", "--by", "ann"];
    expect(await cli(world, ...approve)).toMatchObject({ code: 0 });
    worker.kill9();
    await worker.exit;
    expect(world.ledger.entries()).toEqual([]);
    await world.work();
    expect(await run.result({ timeoutMs: 30_000 })).toMatchObject({ status: "completed", output: "settled" });
    expect(await cli(world, ...approve)).toMatchObject({ code: 0 }); // sent again, long after
    expect(world.ledger.entries().map(({ key }) => key)).toEqual(["approved-1:call-1-1"]);
    const transcript = await run.transcript();
    expect(problemsOf(transcript)).toEqual([]);
    expect(transcript.find(({ role }) => role === "tool")).toMatchObject({ decision: { type: "approved", by: "ann" } });
    // Who decided is ours to know; the server is sent the result alone.
    expect(JSON.stringify(world.server.requests.at(-1)?.body)).not.toContain("ann");
    expect(await run.audit()).toMatchObject([
      { action: "started", by: "zoe" },
      { action: "asked", argumentsHash: call?.argumentsHash },
      { action: "approved", by: "ann", argumentsHash: call?.argumentsHash },
    ]);
  });

  test("[G4] [G5] an approval that expires while no worker runs takes no decision any more", async () => {
    const world = await makeWorld({ redeliver, respond: calling("offer"), approvalExpiresMs: 1_500 });
    const worker = await world.work();
    const run = await world.drover.start("e2e", "go", { runId: "expired-1" });
    const [call] = (await waiting(world, run.id)).openCalls;
    worker.kill9();
    await worker.exit;
    // By Redis's clock, which the expiry is judged by.
    await eventually(async () => {
      const [seconds, micros] = await world.redis.time();
      return Number(seconds) * 1_000 + Number(micros) / 1_000 > (call?.expiresAt ?? 0) || undefined;
    });
    const late = await cli(world, "approve", run.id, "call-1-1");
    expect(late.stderr).toMatch(/was not approved: nobody decided before .*Z, when it expired/);
    expect(late.code).toBe(1);
    await world.work();
    expect(await run.result({ timeoutMs: 30_000 })).toMatchObject({ status: "completed" });
    const told = String(world.server.requests.at(-1)?.body.messages.at(-1)?.content);
    expect(told).toMatch(/nobody approved this call within 1\.5 s/);
    expect(world.ledger.entries()).toEqual([]);
    expect((await run.audit()).map(({ action }) => action)).toEqual(["started", "asked", "expired"]);
    const later = await cli(world, "deny", run.id, "call-1-1");
    expect(later.stderr).toMatch(/was not denied: it expired at .*Z, before anybody decided/);
  });

  test("a dry run executes what reads and nothing else", async () => {
    const world = await makeWorld({ redeliver, respond: calling("look", "post", "pay", "put") });
    await world.work();
    const run = await world.drover.start("e2e", "go", { runId: "dry-1", dryRun: true });
    expect(await run.result({ timeoutMs: 30_000 })).toMatchObject({
      status: "completed",
      dryRun: true,
      described: [{ tool: "post" }, { tool: "pay" }, { tool: "put", arguments: '{"note":"a"}' }],
    });
    expect(world.ledger.entries().map(({ tool }) => tool)).toEqual(["look"]);
    expect(world.ledger.effects()).toEqual([]);
    await jobsAre(world, { active: 0, delayed: 0, waiting: 0 });
    // The same from a program that knows nothing of us, by the queue's contract.
    await world
      .plainQueue("runs")
      .add("start", { agent: "e2e", input: "go", dryRun: true, by: "cron" }, { jobId: "dry-2" });
    const other = world.drover.get("dry-2");
    await eventually(() => other.status().catch(() => undefined));
    expect(await other.result({ timeoutMs: 30_000 })).toMatchObject({ status: "completed", dryRun: true });
    expect(await other.audit()).toMatchObject([{ action: "started", by: "cron" }, {}, {}, {}]);
    expect(world.ledger.entries().map(({ tool }) => tool)).toEqual(["look", "look"]);
  });
});

test("DROVER_POLICY of a worker makes a write wait for a person, and another one forbids it", async () => {
  const world = await makeWorld({ respond: calling("post") });
  const strict = await startCliWorker({ ...world.options, policy: '[{"tool":"po*","approval":"always"}]' });
  const run = await world.drover.start("e2e", "go", { runId: "ruled-1" });
  expect(await waiting(world, run.id)).toMatchObject({
    waitingFor: "a person's decision",
    openCalls: [{ tool: "post", effect: "write", reason: "policy rule 1: approval always" }],
  });
  expect(world.ledger.entries()).toEqual([]);
  await run.approve("call-1-1", { by: "ann" });
  expect(await run.result({ timeoutMs: 30_000 })).toMatchObject({ status: "completed" });
  expect(world.ledger.entries().map(({ key }) => key)).toEqual(["ruled-1:call-1-1"]);
  strict.terminate();
  await strict.exit;

  await startCliWorker({ ...world.options, policy: '[{"tool":"post","allow":false}]' });
  const other = await world.drover.start("e2e", "go", { runId: "ruled-2" });
  expect(await other.result({ timeoutMs: 30_000 })).toMatchObject({ status: "completed" });
  expect(world.ledger.entries().length).toBe(1);
  const { tools, messages } = world.server.requests.at(-1)?.body ?? { tools: [], messages: [] };
  expect(JSON.stringify(tools)).toContain('"look"');
  expect(JSON.stringify(tools)).not.toContain('"post"');
  expect(String(messages.at(-1)?.content)).toMatch(/a rule of the operators forbids it/);
});
