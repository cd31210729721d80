// Catches: work of the whole fleet that nobody does any more, because Redis lost the time at which its lease ends.
import { expect, onTestFinished, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { setUpStore } from "./setup.ts";

test("a lease that lost its end gets one from whoever asks for it next", async () => {
  const { store, keys, cli, close } = setUpStore();
  onTestFinished(close);
  expect(await store.tryLease("sweep", 50)).toBe(true);
  await cli("SET", keys.lease("sweep"), "1"); // as a tool leaves it that copies data without times
  expect(await store.tryLease("sweep", 50)).toBe(false);
  await eventually(async () => (await store.tryLease("sweep", 50)) || undefined);
});
