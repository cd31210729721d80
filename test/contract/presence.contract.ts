import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { KnownAgent, KnownGate, Presence, WorkerPresence } from "../../src/ports.ts";

/** `pass` lets a little time pass where it does not by itself. */
export type PresenceHarness = { presence: Presence; pass(ms: number): void; close(): Promise<void> };

export function worker(id: string, fields: Partial<WorkerPresence> = {}): WorkerPresence {
  const seen = { startedAt: 1_000, seenAt: 2_000, concurrency: 100, running: 0 };
  return { id, host: "h", pid: 1, version: "0.1.0", ...seen, queues: ["model"], agents: ["a"], ...fields };
}

const agent = (name: string, fields: Partial<KnownAgent> = {}): KnownAgent => ({
  name,
  model: "m",
  tools: ["t"],
  seenAt: 2_000,
  ...fields,
});
const gate: KnownGate = { key: "tool:t", kind: "tool", name: "t", rate: { max: 5, perMs: 1_000 }, concurrency: 2 };

/** Registers the suite that every `Presence` passes. */
export function presenceContract(name: string, start: () => Promise<PresenceHarness>): void {
  describe(`${name}: presence of workers`, () => {
    let harness: PresenceHarness;
    beforeEach(async () => {
      harness = await start();
    });
    afterEach(() => harness.close());

    test("gives back what workers told last", async () => {
      const { presence } = harness;
      expect(await presence.workers()).toEqual([]);
      expect(await presence.agents()).toEqual([]);
      expect(await presence.gates()).toEqual([]);
      const older = worker("w2", { startedAt: 500, queues: ["runs", "tools"], running: 7 });
      await presence.tell(worker("w1"), [agent("b")], [gate], 60_000);
      await presence.tell(older, [agent("a", { version: "2" })], [], 60_000);
      const later = worker("w1", { running: 3, seenAt: 3_000 });
      await presence.tell(later, [agent("b", { model: "m2", tools: [] })], [gate], 60_000);
      expect(await presence.workers()).toEqual([older, later]);
      expect(await presence.agents()).toEqual([agent("a", { version: "2" }), agent("b", { model: "m2", tools: [] })]);
      expect(await presence.gates()).toEqual([gate]);
    });

    test("a limit is as the worker that told last has it", async () => {
      const { presence } = harness;
      const strict = { ...gate, concurrency: 1 };
      const other: KnownGate = { key: "model:m", kind: "model", name: "m" };
      await presence.tell(worker("w1", { seenAt: 3_000 }), [], [strict, other], 60_000);
      await presence.tell(worker("w2", { seenAt: 2_000 }), [], [gate], 60_000);
      expect(await presence.gates()).toEqual([other, strict]);
    });

    test("who leaves is gone at once, with its limits; agents stay known", async () => {
      const { presence } = harness;
      await presence.tell(worker("w1"), [agent("a")], [gate], 60_000);
      await presence.tell(worker("w2"), [], [], 60_000);
      await presence.leave("w1");
      await presence.leave("w1");
      expect(await presence.workers()).toEqual([worker("w2")]);
      expect(await presence.gates()).toEqual([]);
      expect(await presence.agents()).toEqual([agent("a")]);
      await presence.forgetAgent("nobody");
      expect(await presence.agents()).toEqual([agent("a")]);
      await presence.forgetAgent("a");
      expect(await presence.agents()).toEqual([]);
    });

    test("who does not tell again is gone after its time, and back when it does", async () => {
      const { presence, pass } = harness;
      await presence.tell(worker("w1"), [agent("a")], [gate], 200);
      await presence.tell(worker("w2"), [], [], 60_000);
      expect(await presence.workers()).toHaveLength(2);
      await vi.waitFor(async () => {
        pass(50);
        expect(await presence.workers()).toEqual([worker("w2")]);
      });
      expect(await presence.gates()).toEqual([]);
      expect(await presence.agents()).toEqual([agent("a")]);
      await presence.tell(worker("w1"), [], [gate], 60_000);
      expect(await presence.workers()).toHaveLength(2);
      expect(await presence.gates()).toEqual([gate]);
    });
  });
}
