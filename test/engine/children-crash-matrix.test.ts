// Catches: a gap between two port calls in which a dying process leaves a parent waiting for a child, a child working for
// nobody, or a child begun, retried or read twice. Each port call of one story is the place of death once.
import { beforeAll, describe, expect, test } from "vitest";
import type { Message } from "../../src/core/message.ts";
import { owed } from "../../src/core/owed.ts";
import { isEnded, type Run } from "../../src/core/run.ts";
import { sweep } from "../../src/engine/sweep.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import type { CrashPoint } from "../../src/testing/index.ts";
import { makeAgent, makeBoss, refusal } from "./children-support.ts";
import { type Bench, makeBench, makeMortal } from "./support.ts";

type Policy = "continue" | "fail";
type Played = { runs: Run[]; messages: Message[]; calls: readonly string[]; feeds: string[][] };

/**
 * Three children at once: one answers, one fails until it was retried twice, and one fails for good, which the run survives
 * (`continue`) or not (`fail`; then a fourth child, which waits for a person, ends too).
 */
async function play(ends: Policy, point?: CrashPoint): Promise<Played> {
  const bench = makeBench();
  const agents = [
    makeBoss([
      { agent: "good", name: "good" },
      { agent: "flaky", name: "flaky", onFailure: "retry", retries: 2 },
      { agent: "bad", name: "bad", onFailure: ends },
      ...(ends === "fail" ? [{ agent: "absent", name: "absent" }] : []),
    ]),
    makeAgent("good", ["fine"]),
    makeAgent("flaky", [async ({ runId }) => ((await failures(bench, runId)) < 2 ? refusal : "at last")]),
    makeAgent("bad", [refusal]),
  ];
  const { faults, engine, fresh, deliver } = makeMortal(bench, agents, point);
  for (let started = false; !started; ) {
    started = await engine()
      .client.start("boss", "go", { runId: "boss-1" })
      .then(
        () => true,
        () => false,
      );
    await new Promise(setImmediate);
    if (faults.dead()) fresh();
  }
  for (let deliveries = 0; deliveries < 400; deliveries += 1) {
    if (bench.queue.list().some(({ dueAt }) => dueAt <= bench.clock.now())) {
      await deliver();
      continue;
    }
    if ((await allRuns(bench)).every((run) => isEnded(run) && owed(run).length === 0)) break;
    bench.clock.advance(6_000);
    await sweep({ ...bench, logger: createSilentLogger() });
  }
  const runs = await allRuns(bench);
  const messages = await bench.store.readMessages("boss-1", 0, 100);
  const feeds = await Promise.all(
    runs.map(async ({ runId }) => (await bench.store.readFeed(runId, 0, 500)).map(({ type }) => type)),
  );
  return { runs, messages, feeds, calls: faults.calls };
}

/** How often a run's model call failed, by what was committed. */
async function failures({ store }: Bench, runId: string): Promise<number> {
  return (await store.readFeed(runId, 0, 500)).filter(({ type }) => type === "model_failed").length;
}

async function allRuns({ store }: Bench): Promise<Run[]> {
  return (await store.list({ limit: 100 })).runs.toSorted((a, b) => (a.runId < b.runId ? -1 : 1));
}

const count = (feed: string[] | undefined, type: string): number =>
  (feed ?? []).filter((other) => other === type).length;

/** Every run has ended and told whom it had to tell; nothing was done twice. */
function expectSound({ runs, feeds }: Played, clean: Played): void {
  expect(runs.map(({ runId }) => runId)).toEqual(clean.runs.map(({ runId }) => runId));
  expect(runs.filter((run) => !isEnded(run) || owed(run).length > 0)).toEqual([]);
  for (const feed of feeds) expect(count(feed, "run_created")).toBe(1);
  const boss = feeds[runs.findIndex(({ runId }) => runId === "boss-1")];
  expect(count(boss, "child_started")).toBe(count(clean.feeds[0], "child_started"));
  expect(count(boss, "child_lost")).toBe(0);
}

describe("a process of a run with children, dying at any port call: they continue", () => {
  let clean: Played;

  beforeAll(async () => {
    clean = await play("continue");
  });

  test("plays the story as told when nobody dies", () => {
    expect(clean.runs.map(({ agent, status }) => [agent, status])).toEqual([
      ["boss", "completed"],
      ["good", "completed"],
      ["flaky", "completed"],
      ["bad", "failed"],
    ]);
    const results = clean.messages.filter((message) => message.role === "tool");
    expect(results.map(({ name, outcome }) => [name, outcome])).toEqual([
      ["good", "ok"],
      ["flaky", "ok"],
      ["bad", "failed"],
    ]);
    expect(clean.feeds.map((feed) => count(feed, "run_retried"))).toEqual([0, 0, 2, 0]);
    expect(clean.calls.length).toBeGreaterThan(40);
  });

  test.each(["before", "after", "lost"] as const)("[G1] [G2] leaves sound runs: %s", async (when) => {
    for (let at = 1; at <= clean.calls.length; at += 1) {
      const played = await play("continue", { call: at, when });
      try {
        expectSound(played, clean);
        expect(played.messages).toEqual(clean.messages);
        expect(played.runs.map(({ status }) => status)).toEqual(clean.runs.map(({ status }) => status));
        expect(played.runs.map(({ usage }) => usage)).toEqual(clean.runs.map(({ usage }) => usage));
        expect(played.feeds.map((feed) => count(feed, "run_retried"))).toEqual([0, 0, 2, 0]);
      } catch (error) {
        throw new Error(`death ${when} call ${at} (${clean.calls[at - 1]}): ${(error as Error).message}`);
      }
    }
  });
});

describe("a process of a run with children, dying at any port call: one fails the run", () => {
  let clean: Played;

  beforeAll(async () => {
    clean = await play("fail");
  });

  test.each(["before", "after", "lost"] as const)("[G1] [G2] leaves no child behind: %s", async (when) => {
    expect(clean.runs.map(({ agent, status }) => [agent, status])).toContainEqual(["absent", "cancelled"]);
    for (let at = 1; at <= clean.calls.length; at += 1) {
      const played = await play("fail", { call: at, when });
      try {
        expect(played.runs.filter((run) => !isEnded(run) || owed(run).length > 0)).toEqual([]);
        expect(played.runs.find(({ agent }) => agent === "boss")).toMatchObject({ stopReason: "child_failed" });
        for (const feed of played.feeds) expect(count(feed, "run_created")).toBe(1);
      } catch (error) {
        throw new Error(`death ${when} call ${at} (${clean.calls[at - 1]}): ${(error as Error).message}`);
      }
    }
  });
});
