// Catches: states that no sequence of events should reach. Every property runs over generated sequences, 10,000 of them.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { owed } from "../../src/core/owed.ts";
import { isEnded } from "../../src/core/run.ts";
import { transition } from "../../src/core/transition.ts";
import {
  answered,
  commit,
  type Move,
  makeWorld,
  moveArb,
  runPlan,
  step,
  toEvent,
  type World,
  writePlan,
} from "./support.ts";

const runs = { numRuns: 10_000 };
const moves = fc.array(moveArb, { maxLength: 30 });

function play(sequence: Move[], each: (before: World, after: World, move: Move) => void): World {
  let world = makeWorld();
  for (const move of sequence) {
    const waited = { ...world, clock: world.clock + (move.kind === 11 ? move.wait : 0) };
    const after = step(waited, toEvent(world.run, move, waited.clock));
    each(world, after, move);
    world = after;
  }
  return world;
}

/** Every call answered by exactly one tool message, in call order, straight after its assistant message. */
function checkTranscript({ run, messages }: World): void {
  let expected: string[] = [];
  for (const message of messages) {
    if (message.role === "tool") expect(message.callId).toBe(expected.shift());
    else {
      expect(expected).toEqual([]);
      if (message.role === "assistant") expected = (message.toolCalls ?? []).map((call) => call.callId);
    }
  }
  expect(expected).toEqual(run.calls.map((call) => call.callId));
  expect(messages.length).toBe(run.messageCount);
}

describe("any sequence of events", () => {
  test("[G1] never throws, raises the revision by one per change and numbers its entries without a gap", () => {
    fc.assert(
      fc.property(moves, (sequence) => {
        play(sequence, (before, after) => {
          if (after.run === before.run) return;
          expect(after.run.revision).toBe(before.run.revision + 1);
          expect(after.run.eventSeq).toBeGreaterThanOrEqual(before.run.eventSeq);
        });
      }),
      runs,
    );
  });

  test("[G3] keeps the transcript valid: one tool message per call, in call order, before the next answer", () => {
    fc.assert(
      fc.property(moves, (sequence) => {
        play(sequence, (_, after) => {
          checkTranscript(after);
          for (const call of after.run.calls) expect(after.results.has(call.callId)).toBe(call.state === "settled");
          if (isEnded(after.run)) expect(after.run.calls).toEqual([]);
        });
      }),
      runs,
    );
  });

  test("[G9] an ended run is final but for late usage, and a retry of a failed one", () => {
    fc.assert(
      fc.property(moves, (sequence) => {
        play(sequence, (before, after, move) => {
          if (!isEnded(before.run) || after.run === before.run) return;
          const { type } = toEvent(before.run, move, before.clock);
          const isRetry = type === "retry_requested" && before.run.status === "failed";
          expect(type === "usage_reported" || isRetry).toBe(true);
          expect(after.messages.slice(0, before.messages.length)).toEqual(before.messages);
        });
      }),
      runs,
    );
  });

  test("[G1] applying any event twice equals applying it once", () => {
    fc.assert(
      fc.property(moves, (sequence) => {
        let world = makeWorld();
        for (const move of sequence) {
          const at = world.clock + move.wait;
          const event = toEvent(world.run, move, at);
          const change = transition(world.run, event, { at, token: `m${world.count}` });
          if (!change) {
            world = { ...world, clock: at, count: world.count + 1 };
            continue;
          }
          world = { ...commit(world, change), clock: at, count: world.count + 1 };
          expect(transition(world.run, event, { at, token: "again" })).toBeNull();
        }
      }),
      runs,
    );
  });

  test("[G2] owes nothing only if it waits for somebody outside, or has ended", () => {
    fc.assert(
      fc.property(moves, (sequence) => {
        play(sequence, (_, { run }) => {
          if (owed(run).length > 0) return;
          const asks = run.calls.some(({ state }) => state === "approval" || state === "asking" || state === "answer");
          expect(isEnded(run) || asks || run.paused !== undefined).toBe(true);
        });
      }),
      runs,
    );
  });

  test("[G2] never gives two steps one name, and a step that is still owed keeps its name", () => {
    fc.assert(
      fc.property(moves, (sequence) => {
        const named = new Map<string, string>();
        play(sequence, (_, { run }) => {
          for (const { owedAt, index, kind, callId } of owed(run)) {
            const name = `${owedAt}-${index}`;
            const what = `${kind} ${callId ?? ""}`;
            expect(named.get(name) ?? what).toBe(what);
            named.set(name, what);
          }
        });
      }),
      runs,
    );
  });

  test("[G4] a started call that may not run again is never made ready but by a person", () => {
    fc.assert(
      fc.property(moves, (sequence) => {
        play(sequence, (before, after, move) => {
          for (const call of before.run.calls) {
            if (call.repeatable || (call.state !== "started" && call.state !== "lost")) continue;
            const now = after.run.calls.find((other) => other.callId === call.callId);
            if (now?.state !== "ready") continue;
            // Only the holder of the start's token may say that nothing happened.
            expect(toEvent(before.run, move, before.clock).type).toBe("tool_failed");
          }
        });
      }),
      runs,
    );
  });

  test("[G5] two orders of settling parallel calls give the same transcript", () => {
    const plans = fc.array(fc.constantFrom(runPlan, writePlan), { minLength: 2, maxLength: 6 });
    fc.assert(
      fc.property(
        plans.chain((list) =>
          fc.tuple(
            fc.constant(list),
            fc.shuffledSubarray([...list.keys()], { minLength: list.length }),
            fc.shuffledSubarray([...list.keys()], { minLength: list.length }),
          ),
        ),
        ([list, one, other]) => {
          const settleIn = (order: number[]): World =>
            order.reduce((world, position) => {
              const call = world.run.calls[position];
              if (!call) throw new Error("no such call");
              const ref = { owedAt: call.owedAt, index: call.position };
              const startToken = `s${position}`;
              const started = call.repeatable
                ? world
                : step(world, { type: "tool_started", step: ref, startToken, timeoutAt: world.clock + 1_000 });
              return step(started, {
                type: "tool_finished",
                step: ref,
                ...(call.repeatable ? {} : { startToken }),
                content: `result ${position}`,
                outcome: "ok",
              });
            }, opened);
          const begun = makeWorld();
          const opened = step(begun, answered(begun.run, list));
          const [a, b] = [settleIn(one), settleIn(other)];
          expect(a.messages).toEqual(b.messages);
          expect(a.messages.length).toBe(2 + list.length);
          expect(a.run.model).toBeDefined();
        },
      ),
      runs,
    );
  });
});
