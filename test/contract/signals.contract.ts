import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { RunStore, Signals } from "../../src/ports.ts";
import { change, created, inputReceived } from "./run-fixtures.ts";

export type SignalsUnderTest = {
  signals: Signals;
  /** A store whose commits and live text the signals tell of. */
  store: RunStore;
  /** Resolves when announcements made from now on are heard. */
  listening(): Promise<void>;
  /** Makes listeners miss announcements, and be told so. */
  interrupt(): Promise<void>;
  close(): Promise<void>;
};

/** Registers the suite that every `Signals` passes. */
export function signalsContract(name: string, start: () => Promise<SignalsUnderTest>): void {
  describe(`${name}: signals`, () => {
    let subject: SignalsUnderTest;
    beforeEach(async () => {
      subject = await start();
    });
    afterEach(() => subject.close());

    test("tell of commits and live text of the run that is listened to, and of no other", async () => {
      const { signals, store } = subject;
      const run = await created(store);
      const other = await created(store, { runId: "run-b" });
      const listener = vi.fn<() => void>();
      const otherListener = vi.fn<() => void>();
      await signals.onRun("run-a", listener);
      await signals.onRun("run-b", otherListener);
      await store.commit(change(run, {}, { entries: [inputReceived(2)] }));
      await vi.waitFor(() => expect(listener).toHaveBeenCalledTimes(1));
      await store.publishLive("run-a", [{ turn: 1, attempt: 1, execution: "e", text: "x" }]);
      await vi.waitFor(() => expect(listener).toHaveBeenCalledTimes(2));
      expect(otherListener).not.toHaveBeenCalled();
      await store.commit(change(other));
      await vi.waitFor(() => expect(otherListener).toHaveBeenCalledTimes(1));
      expect(listener).toHaveBeenCalledTimes(2);
    });

    test("tell of a run's end, and of nothing before it, to whoever waits for that", async () => {
      const { signals, store } = subject;
      const run = await created(store);
      const [ended, all] = [vi.fn<() => void>(), vi.fn<() => void>()];
      const off = await signals.onEnd("run-a", ended);
      await signals.onRun("run-a", all);
      const next = change(run, { turns: 1 });
      await store.commit(next);
      await vi.waitFor(() => expect(all).toHaveBeenCalledTimes(1));
      expect(ended).not.toHaveBeenCalled();
      await store.commit(change(next.run, { status: "completed" }));
      await vi.waitFor(() => expect(ended).toHaveBeenCalledTimes(1));
      off();
    });

    test("tell of a run that is made later", async () => {
      const listener = vi.fn<() => void>();
      await subject.signals.onRun("run-a", listener);
      await created(subject.store);
      await vi.waitFor(() => expect(listener).toHaveBeenCalled());
    });

    test("tell each listener of a run until it goes", async () => {
      const { signals, store } = subject;
      let run = await created(store);
      const [first, second] = [vi.fn<() => void>(), vi.fn<() => void>()];
      const off = await signals.onRun("run-a", first);
      const offSecond = await signals.onRun("run-a", second);
      const commit = async (): Promise<void> => {
        const next = change(run);
        await store.commit(next);
        run = next.run;
      };
      await commit();
      await vi.waitFor(() => expect(second).toHaveBeenCalledTimes(1));
      expect(first).toHaveBeenCalledTimes(1);
      off();
      off();
      await commit();
      await vi.waitFor(() => expect(second).toHaveBeenCalledTimes(2));
      expect(first).toHaveBeenCalledTimes(1);
      offSecond();
      await signals.onRun("run-a", first);
      await commit();
      await vi.waitFor(() => expect(first).toHaveBeenCalledTimes(2));
      expect(second).toHaveBeenCalledTimes(2);
    });

    test("the same listener given twice is two listeners", async () => {
      const run = await created(subject.store);
      const listener = vi.fn<() => void>();
      const off = await subject.signals.onRun("run-a", listener);
      await subject.signals.onRun("run-a", listener);
      off();
      await subject.store.commit(change(run));
      await vi.waitFor(() => expect(listener).toHaveBeenCalledTimes(1));
    });

    test("announce runs to everyone", async () => {
      const heard: (string | null)[] = [];
      const alsoHeard: (string | null)[] = [];
      subject.signals.onAnnounced((runId) => heard.push(runId));
      const off = subject.signals.onAnnounced((runId) => alsoHeard.push(runId));
      await subject.listening();
      await subject.signals.announce("run-a");
      await vi.waitFor(() => expect(heard).toContain("run-a"));
      await vi.waitFor(() => expect(alsoHeard).toContain("run-a"));
      off();
      await subject.signals.announce("run-b");
      await vi.waitFor(() => expect(heard).toContain("run-b"));
      expect(alsoHeard).not.toContain("run-b");
    });

    test("say when announcements may have been missed, and go on", async () => {
      const heard: (string | null)[] = [];
      subject.signals.onAnnounced((runId) => heard.push(runId));
      await subject.listening();
      await subject.signals.announce("run-a");
      await vi.waitFor(() => expect(heard).toContain("run-a"));
      const before = heard.length;
      await subject.interrupt();
      await vi.waitFor(() => expect(heard.slice(before)).toContain(null), { timeout: 5_000 });
      await subject.signals.announce("run-b");
      await vi.waitFor(() => expect(heard).toContain("run-b"));
    });
  });
}
