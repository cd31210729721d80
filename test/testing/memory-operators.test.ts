import { manualClock } from "../../src/testing/manual-clock.ts";
import {
  createMemoryKeyStore,
  createMemoryPresence,
  createMemoryResponseStore,
} from "../../src/testing/memory-operators.ts";
import { keyStoreContract } from "../contract/key-store.contract.ts";
import { presenceContract } from "../contract/presence.contract.ts";
import { responseStoreContract } from "../contract/response-store.contract.ts";

function clocked(): { clock: ReturnType<typeof manualClock>; pass(ms: number): void; close(): Promise<void> } {
  const clock = manualClock(1_000);
  return { clock, pass: (ms) => clock.advance(ms), close: async () => {} };
}

presenceContract("memory", async () => {
  const { clock, ...rest } = clocked();
  return { presence: createMemoryPresence({ clock }), ...rest };
});

keyStoreContract("memory", async () => {
  const { clock, ...rest } = clocked();
  return { keys: createMemoryKeyStore({ clock }), ...rest };
});

responseStoreContract("memory", async () => {
  const { clock, ...rest } = clocked();
  return { responses: createMemoryResponseStore({ clock }), ...rest };
});
