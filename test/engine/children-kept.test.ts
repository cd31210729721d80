// Catches: a child's result that is removed before its parent has read it, and a child that is kept for ever.
import { expect, test } from "vitest";
import type { Run } from "../../src/core/run.ts";
import { removeExpired } from "../../src/engine/retention.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { makeAgent, makeBoss, makeScene, type Scene } from "./children-support.ts";

const hour = 3_600_000;
const runId = "boss-1";

/** A child that has answered and told its parent, which is paused and has not looked. */
async function answeredMeanwhile(): Promise<{ scene: Scene; child: Run; expire: () => Promise<unknown> }> {
  const scene = makeScene([makeBoss([{ onFailure: "retry" }]), makeAgent("helper", ["42", "43"])]);
  const { engine, queue, store, clock } = scene;
  await engine.client.start("boss", "go", { runId });
  for (let steps = 0; steps < 2; steps += 1) {
    const taken = queue.take();
    if (!taken) throw new Error("nothing to do");
    taken.end(await engine.runStep(taken.delivery));
  }
  await engine.handle(runId).pause({ by: "ann" });
  await queue.drain(engine.runStep, { advanceTime: false });
  const { runs } = await store.list({ agent: "helper", limit: 2 });
  const [child] = runs;
  if (!child || runs.length > 1) throw new Error("not one child");
  const expire = async (): Promise<unknown> => {
    clock.advance(2 * hour);
    return removeExpired({ ...scene, logger: createSilentLogger() }, { completed: hour, cancelled: hour });
  };
  return { scene, child, expire };
}

test("retention keeps a child until its parent has read what came of it", async () => {
  const { scene, child, expire } = await answeredMeanwhile();
  expect(child).toMatchObject({ status: "completed", parent: { runId } });
  expect(child.parent?.owedAt).toBeUndefined();
  expect(await expire()).toEqual({});
  await scene.engine.handle(runId).resume();
  await scene.play();
  const results = (await scene.store.readMessages(runId, 0, 9)).filter(({ role }) => role === "tool");
  expect(results).toMatchObject([{ content: "42", outcome: "ok" }]);
  expect(await expire()).toEqual({ completed: 2 });
});

test("retention keeps a child whose parent cannot be read, and not one whose parent is gone or has ended", async () => {
  const { scene, expire } = await answeredMeanwhile();
  const load = scene.store.load;
  scene.store.load = async (id) => {
    if (id === runId) throw new Error("written by a newer version");
    return load(id);
  };
  expect(await expire()).toEqual({});
  scene.store.load = load;
  await scene.engine.handle(runId).cancel();
  await scene.play();
  expect(await expire()).toEqual({ completed: 1, cancelled: 1 });
});

test("nobody can delete a child whose parent still waits for its result", async () => {
  const { scene, child } = await answeredMeanwhile();
  const { client } = scene.engine;
  await expect(client.delete(child.runId)).rejects.toMatchObject({
    code: "not_allowed",
    message: expect.stringContaining(`run "${runId}" still waits for its result`),
  });
  await scene.engine.handle(runId).cancel();
  await scene.play();
  await client.delete(child.runId);
  expect(await scene.store.load(child.runId)).toBeNull();
});
