// Catches: a secret that a reader gets after a cut, and text that is lost or comes twice because some was held back.
import { setImmediate as turnOfLoop } from "node:timers/promises";
import fc from "fast-check";
import { expect, test } from "vitest";
import { fromFeedId, type RunFeedEvent } from "../../src/core/feed.ts";
import { createRedactor, type Redactor } from "../../src/core/redact.ts";
import { follow } from "../../src/engine/follow.ts";
import { redactedFeed } from "../../src/http/redacted-feed.ts";
import { createMemoryRunStore, createMemorySignals } from "../../src/testing/index.ts";
import { essenceOf, historyOf, play } from "../support/feed-history.ts";

const secret = "wobbly-Orchard-77-kestrel";
const redactor: Redactor = createRedactor({ known: [{ kind: "test", value: secret }] });

const piece = fc.oneof(
  fc.constantFrom(
    "password: ",
    "hunter2hunter2",
    " and ",
    "sk-",
    "proj-abcdefghijklmnopqrstuvwxyz0123456789",
    "\n",
    "x",
  ),
  fc.constantFrom(secret, secret.slice(0, 9), secret.slice(9)),
  fc.string({ minLength: 1, maxLength: 6 }),
);

test("what was given out joins to the redacted text, wherever a reader is cut and goes on", async () => {
  await fc.assert(
    fc.asyncProperty(
      historyOf(piece),
      fc.array(fc.record({ after: fc.integer({ min: 1, max: 9 }), pause: fc.nat(8) }), { maxLength: 8 }),
      fc.boolean(),
      async (turns, cuts, late) => {
        const signals = createMemorySignals();
        const store = createMemoryRunStore({ signals });
        const playing = play(store, "run-a", turns);
        if (late) await playing;
        else await turnOfLoop();
        const got: RunFeedEvent[] = [];
        for (const { after, pause } of [...cuts, { after: Number.POSITIVE_INFINITY, pause: 0 }]) {
          let count = 0;
          const events = redactedFeed((options) => follow({ store, signals }, "run-a", options), redactor, {
            after: got.at(-1)?.id,
          });
          for await (const event of events) {
            got.push(event);
            count += 1;
            if (count >= after) break;
          }
          if (got.at(-1)?.type === "run_ended") break;
          for (let turn = 0; turn < pause; turn += 1) await turnOfLoop();
        }
        await playing;
        const plain: RunFeedEvent[] = [];
        for await (const event of follow({ store, signals }, "run-a")) plain.push(event);
        const { entries, texts } = essenceOf(plain);
        const essence = essenceOf(got);
        expect(essence.entries).toEqual(redactor.value(entries));
        expect(essence.texts).toEqual(
          Object.fromEntries(Object.entries(texts).map(([turn, text]) => [turn, redactor.text(text)])),
        );
        expect(JSON.stringify(got)).not.toContain(secret);
        for (const { id } of got) expect(fromFeedId(id)).not.toBeNull();
      },
    ),
    { numRuns: 400 },
  );
});
