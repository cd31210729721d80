// Catches: tokens that are charged twice because the reply to the commit of an answer was lost, and tokens that are
// charged to nobody because another's answer was taken.
import { expect, test } from "vitest";
import { defineAgent } from "../../src/define-agent.ts";
import type { RunStore } from "../../src/ports.ts";
import { scriptedModel } from "../../src/testing/index.ts";
import { makeBench, takeStep } from "./support.ts";

const usage = { inputTokens: 10, outputTokens: 5 };
const agents = [
  defineAgent({ name: "brief", instructions: "Answer.", model: scriptedModel([{ text: "done", usage }]), tools: [] }),
];

/** The commit of an answer is made, and its process is told that the run had gone on. */
function losing(store: RunStore): RunStore {
  return {
    ...store,
    async commit(change) {
      const result = await store.commit(change);
      if (!change.entries.some(({ type }) => type === "model_answered")) return result;
      return { committed: false, run: await store.load(change.run.runId) };
    },
  };
}

test("an answer that was committed and called refused is charged once", async () => {
  const bench = makeBench();
  const engine = bench.process({ agents, store: losing(bench.store) });
  await engine.client.start("brief", "go", { runId: "run-a" });
  const { delivery, end } = takeStep(bench);
  end(await engine.runStep(delivery));
  expect(await bench.store.load("run-a")).toMatchObject({ status: "completed", usage });
});

test("an answer that came after another one was taken is charged as well", async () => {
  const bench = makeBench();
  const other = bench.process({ agents });
  const engine = bench.process({ agents });
  await engine.client.start("brief", "go", { runId: "run-a" });
  const { delivery, end } = takeStep(bench);
  await Promise.all([engine.runStep(delivery), other.runStep(delivery)]);
  end({ type: "done" });
  expect(await bench.store.load("run-a")).toMatchObject({
    status: "completed",
    usage: { inputTokens: 20, outputTokens: 10 },
  });
});
