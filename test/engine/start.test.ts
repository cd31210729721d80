// Catches: a start that leaves no trace, whatever was wrong with it.
import { describe, expect, test } from "vitest";
import { makeBench } from "./support.ts";

test("[G2] starting a run again queues its step, if whoever started it first did not come so far", async () => {
  const bench = makeBench();
  const away = async (): Promise<never> => Promise.reject(new Error("gone"));
  await bench.process({ queue: { ...bench.queue, add: away } }).client.start("a", "go", { runId: "order-1" });
  expect(bench.queue.list()).toEqual([]);
  await bench.process().client.start("a", "go", { runId: "order-1" });
  expect(bench.queue.list()).toMatchObject([{ step: { kind: "model", owedAt: 1 } }]);
});

test("[G7] input nested without end is refused in words", async () => {
  const bench = makeBench();
  const deep: unknown = JSON.parse("[".repeat(100_000) + "]".repeat(100_000));
  const start = bench.process().client.start("a", "go", { runId: "order-1", metadata: { deep } });
  await expect(start).rejects.toThrow(/The run was not started: input: .*at most 200 deep/);
  expect(await bench.store.load("order-1")).toBeNull();
});

describe("a job of the runs queue", () => {
  test("[G7] that is malformed is kept as rejected, and its id is free for a corrected one", async () => {
    const bench = makeBench();
    const engine = bench.process();
    await engine.takeStart({ rejected: { runId: "order-1", agent: "a", reason: "input: expected a string" } });
    expect(await bench.store.load("order-1")).toMatchObject({
      status: "rejected",
      error: { message: "input: expected a string" },
    });
    await engine.takeStart({ runId: "order-1", payload: { agent: "a", input: "go" } });
    expect(await bench.store.load("order-1")).toMatchObject({ status: "queued" });
  });

  test("[G7] that is malformed and bears a run's id is kept as rejected beside that run", async () => {
    const bench = makeBench();
    const engine = bench.process();
    await engine.takeStart({ runId: "order-1", payload: { agent: "a", input: "go" } });
    const wrong = { rejected: { runId: "order-1", agent: "a", reason: "input: expected a string" } };
    await engine.takeStart(wrong);
    await engine.takeStart(wrong); // delivered again
    expect(await bench.store.load("order-1")).toMatchObject({ status: "queued" });
    const { runs } = await bench.store.list({ status: "rejected" });
    expect(runs).toMatchObject([{ agent: "a", error: { message: "input: expected a string" } }]);
    expect(runs[0]?.runId).toContain("order-1");
  });

  test("[G7] with another input than the run of its id is kept as rejected beside that run", async () => {
    const bench = makeBench();
    const engine = bench.process();
    await engine.takeStart({ runId: "order-1", payload: { agent: "a", input: "go" } });
    await engine.takeStart({ runId: "order-1", payload: { agent: "a", input: "stop" } });
    const { runs } = await bench.store.list({ status: "rejected" });
    expect(runs).toMatchObject([{ error: { message: expect.stringContaining("another agent or input") } }]);
    expect(await bench.store.readMessages("order-1", 0, 9)).toEqual([{ role: "user", content: "go" }]);
  });
});
