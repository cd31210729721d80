// Catches: runs that start though there is no room, running ones and repeated starts that are refused for it.
import { expect, test } from "vitest";
import { makeBench, takeStep } from "./support.ts";

const full = { refusal: async (): Promise<string> => "it is nearly full" };

test("a store without room refuses new runs by every way in, and nothing of those there are", async () => {
  const bench = makeBench();
  await bench.process().client.start("a", "go", { runId: "there" });
  const asked: number[] = [];
  const room = {
    refusal: async (bytes: number): Promise<string> => {
      asked.push(bytes);
      return full.refusal();
    },
  };
  const { client, takeStart, runStep } = bench.process({ room });
  const refused = { code: "queue_unavailable", message: "The run was not started: it is nearly full" };
  await expect(client.start("a", "go", { runId: "new" })).rejects.toMatchObject(refused);
  expect(asked).toEqual([4]);
  const session = { runId: "new", session: "s", whenBusy: "inject" } as const;
  await expect(client.start("a", "go", session)).rejects.toMatchObject(refused);
  // The job is delivered again later.
  await expect(takeStart({ runId: "new", payload: { agent: "a", input: "go" } })).rejects.toMatchObject(refused);
  expect(await bench.store.load("new")).toBeNull();

  expect((await client.start("a", "go", { runId: "there" })).runId).toBe("there");
  await expect(client.start("a", "other", { runId: "there" })).rejects.toMatchObject({ code: "conflict" });
  await runStep(takeStep(bench).delivery);
  await client.command("there", { type: "cancel_requested", by: "t", reason: "r" });
  expect((await client.load("there")).status).toBe("cancelled");
});

test("input for a session's running run is taken", async () => {
  const bench = makeBench();
  await bench.process().client.start("a", "go", { runId: "there", session: "s" });
  const { client } = bench.process({ room: full });
  const taken = await client.start("a", "more", { runId: "next", session: "s", whenBusy: "inject" });
  expect(taken.runId).toBe("there");
});
