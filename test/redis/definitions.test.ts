// Catches: a definition that is sent with every run, and one that is gone while runs need it.
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { createRedisRunStore } from "../../src/redis/run-store.ts";
import { interrupted, type StoreSetup, setUpStore } from "./setup.ts";

let setup: StoreSetup;
beforeEach(() => {
  setup = setUpStore();
});
afterEach(() => setup.close());

const definition = { name: "a", instructions: "", model: "m", provider: "p", tools: [], request: {}, limits: {} };

test("a definition is sent once in half a minute, and put there again if Redis has lost it", async () => {
  const { store, keys, cli, connection } = setup;
  const now = vi.spyOn(performance, "now").mockReturnValue(1_000);
  onTestFinished(() => now.mockRestore());
  await store.putDefinition("h", definition);
  await cli("DEL", keys.definition("h"));
  now.mockReturnValue(30_999);
  await store.putDefinition("h", definition);
  expect(await store.getDefinition("h")).toBeNull();
  now.mockReturnValue(31_000);
  await store.putDefinition("h", definition);
  expect(await store.getDefinition("h")).toEqual(definition);
  await cli("DEL", keys.definition("h"));
  connection.client.disconnect(true); // as a failover cuts it, within that time
  await store.load("run-a");
  await store.putDefinition("h", definition);
  expect(await store.getDefinition("h")).toEqual(definition);
});

test("one that is put again stays, also while it is being removed", async () => {
  const { store, keys, cli, connection } = setup;
  const other = (): StoreSetup["store"] => createRedisRunStore({ connection, keys });
  const age = (): Promise<unknown> => cli("ZADD", keys.definitionsPut, "1", "h");
  await store.putDefinition("h", definition);
  await age();
  await other().putDefinition("h", definition);
  expect(await store.removeDefinitions(Date.now() - 60_000, 10)).toBe(0);
  await age();
  const racing = interrupted(connection, 2, () => other().putDefinition("h", definition));
  const remover = createRedisRunStore({ connection: racing, keys });
  expect(await remover.removeDefinitions(Date.now() - 60_000, 10)).toBe(0);
  expect(await store.getDefinition("h")).toEqual(definition);
  await age();
  expect(await store.removeDefinitions(Date.now() - 60_000, 10)).toBe(1);
  expect(await cli("EXISTS", keys.definition("h"), keys.definitionsPut)).toBe(0);
});

test("none goes at the first look after a while without one: versions that note no times may have used it", async () => {
  const { store, keys, cli } = setup;
  const put = keys.definitionsPut;
  const minuteAgo = Date.now() - 60_000;
  await store.putDefinition("h", definition);
  const age = (ms: number, ...which: string[]): Promise<unknown> =>
    cli("ZADD", put, ...which.flatMap((hash) => [`${Date.now() - ms}`, hash]));
  await age(9_000_000, "h");
  expect(await store.removeDefinitions(minuteAgo, 10)).toBe(0);
  await age(9_000_000, "h", "");
  expect(await store.removeDefinitions(minuteAgo, 10)).toBe(0);
  await age(9_000_000, "h");
  await age(1_700_000, "");
  expect(await store.removeDefinitions(minuteAgo, 10)).toBe(1);
  expect(await store.getDefinition("h")).toBeNull();
  expect(await cli("EXISTS", put)).toBe(0);
});
