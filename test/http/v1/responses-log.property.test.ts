// Catches: watchers at different servers that get different numbers or texts, and one that misses or doubles an event when it
// comes back.
import { setImmediate as turnOfLoop } from "node:timers/promises";
import fc from "fast-check";
import { ResponseStream } from "openai/lib/responses/ResponseStream";
import { expect, test } from "vitest";
import { createRedactor } from "../../../src/core/redact.ts";
import { follow } from "../../../src/engine/follow.ts";
import type { HttpDeps } from "../../../src/http/types.ts";
import { createResponsesLog, type ResponsesLog } from "../../../src/http/v1/responses-log.ts";
import type { RunStore } from "../../../src/ports.ts";
import { createSilentLogger } from "../../../src/telemetry/logger.ts";
import { createMemoryRunStore, createMemorySignals } from "../../../src/testing/index.ts";
import { createMemoryResponseStore } from "../../../src/testing/memory-operators.ts";
import { historyOf, play } from "../../support/feed-history.ts";
import { subject } from "./feeds.ts";

const secret = "wobbly-Orchard-77-kestrel";
const redactor = createRedactor({ known: [{ kind: "test", value: secret }] });
const piece = fc.oneof(
  fc.constantFrom("Hello ", "there. ", "password: hunter2hunter2 ", secret, secret.slice(0, 9), secret.slice(9)),
  fc.string({ minLength: 1, maxLength: 6 }),
);
const of = { ...subject, runId: "run-a" };

/** Watches at servers in turn, each time only for so many events, and comes back with the last number. */
async function watch(
  servers: ResponsesLog[],
  { visits, last }: { visits: { server: number; events: number; pause: number }[]; last: number },
): Promise<string[]> {
  const got: string[] = [];
  for (const { server, events, pause } of [...visits, { server: last, events: Number.POSITIVE_INFINITY, pause: 0 }]) {
    for (let turn = 0; turn < pause; turn += 1) await turnOfLoop();
    const gone = new AbortController();
    let count = 0;
    for await (const event of servers[server % servers.length]?.events(of, got.length, gone.signal) ?? []) {
      got.push(event);
      count += 1;
      if (count >= events) break;
    }
    gone.abort();
  }
  return got;
}

/** Runs that end with an answer: one that calls tools is not the last word. */
const answered = historyOf(piece).map((turns) => [
  ...turns.slice(0, -1),
  ...turns.slice(-1).map((turn) => ({ ...turn, results: [] })),
]);

const visits = fc.array(fc.record({ server: fc.nat(2), events: fc.integer({ min: 1, max: 9 }), pause: fc.nat(6) }), {
  maxLength: 5,
});

test("[D8] all watchers of a response at all servers get one and the same numbered log", async () => {
  await fc.assert(
    fc.asyncProperty(
      answered,
      fc.array(fc.record({ visits, last: fc.nat(2) }), { minLength: 1, maxLength: 4 }),
      async (turns, watchers) => {
        const signals = createMemorySignals();
        const store = createMemoryRunStore({ signals });
        const responses = createMemoryResponseStore({ clock: Date });
        await responses.create({ id: of.id, runId: of.runId, createdAt: 0, afterSeq: 0, request: {} });
        const depsOf = (source: Pick<RunStore, "readLive">): HttpDeps =>
          ({
            responses,
            redactor,
            store,
            now: Date.now,
            logger: createSilentLogger(),
            watch: { events: (runId, options) => follow({ store: { ...store, ...source }, signals }, runId, options) },
          }) satisfies Partial<HttpDeps> as unknown as HttpDeps;
        // One of the servers hears of text only when it is committed, as if the live text were gone.
        const deaf = { readLive: async (_runId: string, next: string) => ({ deltas: [], next }) };
        const servers = [store, store, deaf].map((source) =>
          createResponsesLog(depsOf(source), { lookEveryMs: 1, patienceMs: 3 }),
        );
        const playing = play(store, "run-a", turns);
        await turnOfLoop();
        const logs = await Promise.all(watchers.map((given) => watch(servers, given)));
        await playing;
        for (const log of logs) expect(log).toEqual(logs[0]);
        const [log = []] = logs;
        const stream = ResponseStream.fromReadableStream(
          new Blob([log.map((event) => `${event}\n`).join("")]).stream(),
        );
        const final = await stream.finalResponse();
        expect(final.status).toBe("completed");
        expect(final.output_text.trim()).toBe(redactor.text(turns.at(-1)?.answer.join("") ?? "").trim());
        expect(log.join("")).not.toContain(secret);
      },
    ),
    { numRuns: 200 },
  );
});
