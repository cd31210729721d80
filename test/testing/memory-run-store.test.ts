import { expect, test } from "vitest";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { createMemoryRunStore } from "../../src/testing/memory-run-store.ts";
import { createMemorySignals } from "../../src/testing/memory-signals.ts";
import { outputsContract } from "../contract/outputs.contract.ts";
import { retentionContract } from "../contract/retention.contract.ts";
import { change, committed, created } from "../contract/run-fixtures.ts";
import { runIndexContract } from "../contract/run-index.contract.ts";
import { runStoreContract, type StoreUnderTest } from "../contract/run-store.contract.ts";
import { sessionsContract } from "../contract/sessions.contract.ts";
import { signalsContract } from "../contract/signals.contract.ts";

const start = async (): Promise<StoreUnderTest> => ({ store: createMemoryRunStore(), close: async () => {} });
runStoreContract("memory", start);
runIndexContract("memory", start);
retentionContract("memory", start);
sessionsContract("memory", start);
outputsContract("memory", start);

signalsContract("memory", async () => {
  const signals = createMemorySignals();
  return {
    signals,
    store: createMemoryRunStore({ signals }),
    listening: async () => {},
    interrupt: async () => signals.loseAnnouncements(),
    close: async () => {},
  };
});

test("live text goes ten minutes after the end of its run", async () => {
  const clock = manualClock(1_000);
  const store = createMemoryRunStore({ clock });
  const run = await created(store);
  await store.publishLive("run-a", [{ turn: 1, attempt: 1, execution: "e", text: "x" }]);
  clock.advance(3_600_000);
  expect((await store.readLive("run-a", "0")).deltas).toHaveLength(1);
  await committed(store, change(run, { status: "completed", endedAt: clock.now() }));
  clock.advance(599_999);
  expect((await store.readLive("run-a", "0")).deltas).toHaveLength(1);
  clock.advance(1);
  expect((await store.readLive("run-a", "0")).deltas).toHaveLength(0);
});
