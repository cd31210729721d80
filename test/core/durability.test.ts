import { expect, test } from "vitest";
import { durabilitySchema, toDurabilityTarget } from "../../src/core/durability.ts";

test.each([
  [{}, undefined],
  [{ replicas: 0, fsync: false }, undefined],
  [{ replicas: 2 }, { replicas: 2, disks: undefined, timeoutMs: 1_000 }],
  [
    { fsync: true, timeoutMs: 50 },
    { replicas: 0, disks: { own: 1, replicas: 0 }, timeoutMs: 50 },
  ],
  [
    { replicas: 1, fsync: 2 },
    { replicas: 1, disks: { own: 1, replicas: 2 }, timeoutMs: 1_000 },
  ],
])("what %j waits for", (given, target) => {
  expect(toDurabilityTarget(durabilitySchema.parse(given))).toEqual(target);
});

test.each([{ replicas: -1 }, { replicas: "1" }, { fsync: "yes" }, { timeoutMs: 1 }, { replica: 1 }])(
  "%j is refused",
  (given) => expect(durabilitySchema.safeParse(given).success).toBe(false),
);
