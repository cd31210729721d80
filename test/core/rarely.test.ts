// Would catch a log that is flooded during an outage, and one that never says it again.
import { expect, test } from "vitest";
import { createRarely } from "../../src/core/rarely.ts";

test("each kind is said once in ten seconds, then with the number of times that it was not", () => {
  let now = 1_000;
  const rarely = createRarely(() => now);
  const said: string[] = [];
  const say = (kind: string): void => rarely(kind, ({ repeats = 0 }) => said.push(`${kind} ${repeats}`));
  for (let time = 0; time < 5; time += 1) say("full");
  say("away");
  now += 9_999;
  say("full");
  expect(said).toEqual(["full 0", "away 0"]);
  now += 1;
  say("full");
  say("full");
  expect(said).toEqual(["full 0", "away 0", "full 5"]);
});

test("kinds without end take no memory without end, and a clock that is set back silences nothing", () => {
  let now = 1_000_000;
  const rarely = createRarely(() => now);
  let said = 0;
  for (let kind = 0; kind < 1_000; kind += 1) rarely(`kind ${kind}`, () => (said += 1));
  expect(said).toBe(1_000);
  now -= 500_000;
  rarely("kind 999", () => (said += 1));
  expect(said).toBe(1_001);
});
