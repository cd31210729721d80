// Catches: a parent that waits for ever because its child failed, died, was lost, or could not tell it; a child that works on
// for nobody.
import { describe, expect, test } from "vitest";
import type { ChildFailurePolicy } from "../../src/core/child.ts";
import type { RunFeedEvent } from "../../src/core/feed.ts";
import type { RunView } from "../../src/engine/run-view.ts";
import { eventually } from "../support/eventually.ts";
import { type FakeAnswer, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { makeWorld, readFeed, runIdOf, type World } from "../support/world.ts";
import { startFleet } from "./support/fleet.ts";
import { judge } from "./support/judge.ts";
import { isLong, seeded } from "./support/seed.ts";

const policies: readonly ChildFailurePolicy[] = ["continue", "fail", "retry"];
/** What a parent may take to go on once a child of its has ended. */
// The short form shares two cores with another file and with workers that keep dying: twice the time.
const noticedWithinMs = isLong ? 10_000 : 20_000;

/** Every worker that dies takes seconds to be replaced: the short form lets one parent's child kill them. */
const tasksOf = (policy: string): string[] => ["good", "bad", ...(isLong || policy === "continue" ? ["poison"] : [])];

/** A parent's first turn hands three tasks on at once; what a child is about is the first word of its input. */
function respond(request: FakeRequest): FakeAnswer {
  const about = runIdOf(request);
  const turn = turnOf(request.body);
  if (about.startsWith("parent-")) {
    if (turn > 1) return { text: "all is known" };
    const policy = about.split("-")[2] ?? "";
    const tasks = about.startsWith("parent-wait") ? ["wait", "wait", "wait"] : tasksOf(policy);
    return { toolCalls: tasks.map((task) => ({ name: `hand_${policy}`, arguments: { input: `${task} go` } })) };
  }
  if (about === "bad") return { status: 401, body: { error: { message: "the key is bad" } } };
  // Also once it is retried, with what became of its first call.
  if (about === "poison") return { toolCalls: [{ name: "die", arguments: { note: `${turn}` } }] };
  if (turn > 1) return { text: `${about} is done` };
  return { toolCalls: [{ name: about === "wait" ? "pay" : "put", arguments: { note: about } }] };
}

async function childrenOf(world: World, runId: string): Promise<RunView[]> {
  const { runs } = await world.drover.list({ limit: 100 });
  return runs.filter(({ parent }) => parent?.runId === runId);
}

/** When a parent came to know of each child's end, after that end. */
async function noticed(world: World, runId: string, children: readonly RunView[]): Promise<number[]> {
  const known = (await readFeed(world, runId)).filter((event) => event.type === "child_ended");
  return known.map((event: Extract<RunFeedEvent, { type: "child_ended" }>) => {
    const child = children.find((other) => other.runId === event.childId);
    return event.at - (child?.endedAt ?? event.at);
  });
}

test("[Q27] one child completes, one fails, one kills every worker: under each policy the parent goes on or ends, and knows which", async () => {
  const { seed } = seeded();
  const world = await makeWorld({ respond, handOn: true, lockMs: isLong ? 3_000 : 1_000 });
  await startFleet(world, isLong ? 3 : 2);
  const runs = await Promise.all(
    policies.map((policy) => world.drover.start("e2e", `parent-of-${policy} go`, { runId: `parent-of-${policy}` })),
  );
  const results = await Promise.all(runs.map((run) => run.result({ timeoutMs: 100_000 })));
  expect(results.map(({ status, stopReason }) => [status, stopReason])).toEqual([
    ["completed", "answered"],
    ["failed", "child_failed"],
    ["completed", "answered"],
  ]);
  for (const [index, policy] of policies.entries()) {
    const run = runs[index];
    if (!run) throw new Error("no run");
    const children = await eventually(async () => {
      const all = await childrenOf(world, run.id);
      return all.length === tasksOf(policy).length && all.every(({ endedAt }) => endedAt !== undefined)
        ? all
        : undefined;
    });
    for (const ms of await noticed(world, run.id, children)) expect(ms).toBeLessThan(noticedWithinMs);
    const said = (await run.transcript()).flatMap((message) =>
      message.role === "tool" ? [String(message.content)] : [],
    );
    const bad = children.find(({ stopReason }) => stopReason === "model_error");
    const because = `Run "${bad?.runId}" of agent "e2e"`;
    if (policy === "fail") {
      expect(results[index]?.error?.message).toMatch(/Run "parent-of-fail\.call-1-\d\.\w+" of agent "e2e".*failed/);
      continue;
    }
    expect(said[0]).toBe("good is done");
    expect(said[1]).toContain(because);
    expect(said[1]).toContain("refused the API key (401)");
    if (tasksOf(policy).length > 2) expect(said[2]).toMatch(/failed.* \(poison\): The tool of call-\d-1 was stopped/);
    if (policy === "retry") expect(said[1]).toContain("after 1 retry");
  }
  const deadOfIt = world.ledger.entries().filter(({ tool }) => tool === "die");
  await judge(world, {
    seed,
    statuses: ["completed", "failed", "cancelled"],
    isCaused: ({ pid }) => deadOfIt.some((one) => one.pid === pid),
  });
});

describe("[Q27] a parent whose children wait for a person", () => {
  async function waiting(policy: ChildFailurePolicy): Promise<{ world: World; id: string; children: RunView[] }> {
    const world = await makeWorld({ respond, handOn: true });
    await startFleet(world, 2);
    const id = `parent-wait-${policy}`;
    await world.drover.start("e2e", `${id} go`, { runId: id });
    const children = await eventually(async () => {
      const all = await childrenOf(world, id);
      return all.length === 3 && all.every(({ status }) => status === "waiting") ? all : undefined;
    });
    return { world, id, children };
  }

  test("ends them by being cancelled, wherever they are", async () => {
    const { world, id, children } = await waiting("continue");
    await world.drover.get(id).cancel({ by: "ann" });
    for (const { runId } of children) {
      const child = await world.drover.get(runId).result({ timeoutMs: noticedWithinMs });
      expect(child).toMatchObject({ status: "cancelled" });
    }
    await judge(world, { statuses: ["cancelled"] });
  });

  test("goes on when the record of one is lost, its word of another, and all its workers with the third", async () => {
    const { world, id, children } = await waiting("continue");
    const [lost, silent, third] = children.map(({ runId }) => runId);
    if (!lost || !silent || !third) throw new Error("three children");
    const lostAt = Date.now();
    const keys = world.keys.run(lost);
    await world.redis.del(keys.head, keys.messages, keys.results, keys.feed, keys.live);
    for await (const event of world.drover.get(id).events()) {
      if (event.type !== "child_ended") continue;
      expect(event).toMatchObject({ childId: lost, status: "gone" });
      break;
    }
    expect(Date.now() - lostAt).toBeLessThan(noticedWithinMs);
    for (const worker of world.workers) worker.kill9();
    for (const runId of [silent, third]) await world.drover.get(runId).deny("call-1-1", { by: "ann", reason: "no" });
    const result = await world.drover.get(id).result({ timeoutMs: 60_000 });
    expect(result).toMatchObject({ status: "completed", output: "all is known" });
    const outcomes = (await world.drover.get(id).transcript()).flatMap((message) =>
      message.role === "tool" ? [`${message.callId} ${message.outcome}`] : [],
    );
    const call = (runId: string): string => /\.(call-1-\d)\./.exec(runId)?.[1] ?? "";
    expect(outcomes.toSorted()).toEqual([`${call(lost)} failed`, `${call(silent)} ok`, `${call(third)} ok`].toSorted());
  });
});
