// Catches: any gap between two port calls in which a dying process loses a run, doubles an effect or spoils the
// transcript. Each port call of one eventful run is the place of death once: before it, after it, and with it lost.
import { beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { RetryableError } from "../../src/core/errors.ts";
import type { Message } from "../../src/core/message.ts";
import { isEnded, type Run } from "../../src/core/run.ts";
import { type Agent, defineAgent } from "../../src/define-agent.ts";
import { createEngine, type Engine } from "../../src/engine/engine.ts";
import { sweep } from "../../src/engine/sweep.ts";
import type { AgentCode, FleetGates, RunStore, StepOutcome } from "../../src/ports.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { createNoTelemetry } from "../../src/telemetry/no-telemetry.ts";
import {
  type CrashPoint,
  createFaults,
  createMemoryGates,
  createMemoryRunStore,
  createMemorySignals,
  createMemoryStepQueue,
  type Faults,
  manualClock,
  scriptedModel,
} from "../../src/testing/index.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { checkValue } from "../../src/tools/parameters.ts";

const runId = "matrix-1";

/** Everything outside the processes: what survives a crash, and the ledger of what tools really did. */
function makeWorld(): World {
  const clock = manualClock();
  const signals = createMemorySignals();
  const ledger: string[] = [];
  const note = z.object({ note: z.string().describe("what to do") });
  const effect = (
    name: string,
    options: { result?: string } & Record<string, unknown>,
    before: (attempt: number) => void = () => {},
  ): ReturnType<typeof defineTool> => {
    const { result = `${name} done`, ...settings } = options;
    return defineTool({
      name,
      description: "Does what the note says.",
      parameters: note,
      timeoutMs: 1_000,
      ...settings,
      execute: (_args, { idempotencyKey, attempt }) => {
        before(attempt);
        ledger.push(`${name} ${idempotencyKey}`);
        return result;
      },
    });
  };
  const tools = [
    effect("look", { effect: "read" }, (attempt) => {
      if (attempt === 1) throw new RetryableError("busy");
    }),
    effect("post", { effect: "write" }),
    // What is cut out of it is kept apart.
    effect("put", { effect: "write", idempotent: true, maxResultTokens: 100, result: "put done ".repeat(1_500) }),
    effect("pay", { effect: "irreversible" }),
  ];
  const call = (name: string): { name: string; arguments: { note: string } } => ({ name, arguments: { note: name } });
  const transient = { class: "transient" as const, code: "overloaded", message: "try again" };
  const model = scriptedModel([
    { text: "first", toolCalls: [call("look"), call("post"), call("put")] },
    { text: "second", toolCalls: [call("pay"), call("look")] },
    { text: "all done", fail: [transient] },
    '{"answer":"a draft"}',
    '{"answer":"done"}',
  ]);
  const agent = defineAgent({
    name: "matrix",
    instructions: "Do it.",
    model,
    tools,
    output: z.object({ answer: z.string() }),
    verify: ({ answer }) => answer === "done" || `${"no draft ".repeat(40)}please`,
    window: { budgetTokens: 1_100, lastTurns: 1 },
  });
  return {
    clock,
    signals,
    ledger,
    agent,
    store: createMemoryRunStore({ clock, signals }),
    queue: createMemoryStepQueue({ clock }),
    gates: createMemoryGates({ clock }),
  };
}
type World = {
  clock: ReturnType<typeof manualClock>;
  signals: ReturnType<typeof createMemorySignals>;
  ledger: string[];
  agent: Agent;
  store: RunStore;
  queue: ReturnType<typeof createMemoryStepQueue>;
  gates: FleetGates;
};

/** A process: an engine with ports that can die. */
function makeProcess(world: World, faults: Faults): Engine {
  const { code } = world.agent;
  const agent: AgentCode = {
    ...code,
    model: faults.wrap("model", code.model),
    tools: { ...code.tools, execute: faults.wrap("tools", code.tools).execute },
  };
  return createEngine({
    store: faults.wrap("store", world.store),
    queue: faults.wrap("queue", world.queue),
    gates: faults.wrap("gates", world.gates),
    signals: { ...world.signals, announce: faults.wrap("signals", world.signals).announce },
    clock: world.clock,
    ids: { token: counter("t"), runId: () => runId, random: () => 0.5 },
    agents: { get: (name) => (name === "matrix" ? agent : undefined) },
    telemetry: createNoTelemetry(),
    logger: createSilentLogger(),
    payloadLimitBytes: 1_048_576,
    checkValue,
  });
}

let tokens = 0;
function counter(prefix: string): () => string {
  return () => `${prefix}${++tokens}`;
}

type Played = {
  run: Run;
  messages: Message[];
  kept: (string | undefined)[];
  ledger: string[];
  calls: readonly string[];
};

/** Plays the whole story; a dead process is replaced and what it held is delivered again. */
async function play(point?: CrashPoint, redeliverEveryStep = false): Promise<Played> {
  const world = makeWorld();
  const faults = createFaults(point);
  let engine = makeProcess(world, faults);
  const fresh = (): void => {
    engine.close();
    engine = makeProcess(world, createFaults());
  };

  /** A person's command, given again until it is answered. */
  async function command(give: (engine: Engine) => Promise<unknown>): Promise<void> {
    for (;;) {
      const error = await give(engine).then(
        () => null,
        (thrown: Error) => thrown,
      );
      await new Promise(setImmediate);
      if (faults.dead()) fresh();
      if (error?.name !== "Crashed" || (await alreadyTaken())) return;
    }
  }
  const alreadyTaken = async (): Promise<boolean> => {
    const run = await world.store.load(runId);
    return run !== null && run.turns > 0 && !run.calls.some((call) => call.state === "approval");
  };

  async function deliver(): Promise<boolean> {
    const taken = world.queue.take();
    if (!taken) return false;
    const wasDead = faults.dead();
    const outcome: StepOutcome = await engine.runStep(taken.delivery);
    await new Promise(setImmediate);
    if (faults.dead() && !wasDead) {
      fresh();
      world.queue.redeliver(taken.delivery.step);
    } else if (redeliverEveryStep && outcome.type === "done") {
      world.queue.redeliver(taken.delivery.step);
      const again = world.queue.take();
      if (again) again.end(await engine.runStep(again.delivery));
    } else taken.end(outcome);
    return true;
  }

  await command((process) => process.client.start("matrix", "go", { runId }));
  for (let deliveries = 0; deliveries < 500; deliveries += 1) {
    if (await deliver()) continue;
    const run = await world.store.load(runId);
    if (!run) throw new Error("the run is lost");
    if (isEnded(run)) break;
    const waiting = run.calls.find((call) => call.state === "approval" || call.state === "asking");
    const next = world.queue.list().find((step) => step.state === "delayed");
    if (waiting?.state === "approval") await command((p) => p.handle(runId).approve(waiting.callId, { by: "ann" }));
    else if (waiting) await command((p) => p.handle(runId).deny(waiting.callId, { by: "ann", reason: "unsure" }));
    else if (next) world.clock.advance(Math.max(0, next.dueAt - world.clock.now()));
    else {
      // A command died between its commit and its step: only the sweeper can know.
      world.clock.advance(6_000);
      await sweep({ ...world, logger: createSilentLogger() });
      if (world.queue.list().length === 0) throw new Error(`stuck: ${JSON.stringify(run)}`);
    }
  }
  const run = await world.store.load(runId);
  if (!run) throw new Error("the run is lost");
  const messages = await world.store.readMessages(runId, 0, 100);
  const kept = await readKeptTexts(world.store, messages);
  return { run, messages, kept, ledger: world.ledger, calls: faults.calls };
}

const once = ["post matrix-1:call-1-2", "pay matrix-1:call-2-1"];

/**
 * A message without the time of its decision, since a run that lost a worker is asked about later, and without the name
 * that an execution gives to what it keeps.
 */
function timeless(message: Message): Message {
  if (message.role !== "tool") return message;
  const { decision, full } = message;
  return {
    ...message,
    ...(decision ? { decision: { ...decision, at: 0 } } : {}),
    ...(full ? { full: { ...full, ref: "" } } : {}),
  };
}

/** The middle of each result that was cut, read from the store. */
async function readKeptTexts(store: RunStore, messages: readonly Message[]): Promise<(string | undefined)[]> {
  const cut = messages.flatMap((message) => (message.role === "tool" && message.full ? [message.full] : []));
  return Promise.all(cut.map(({ ref, chars }) => store.readOutput(runId, ref, 0, chars)));
}

function expectSound(played: Played, clean: Played): void {
  expect(played.run.status).toBe("completed");
  expect(played.messages.length).toBe(clean.messages.length);
  expect(played.kept).toEqual(clean.kept);
  played.messages.forEach((message, index) => {
    const other = clean.messages[index];
    // Only a call that may not run again may end unknown instead; everything else is the same to the letter.
    if (message.role === "tool" && message.outcome === "unknown") {
      expect(["post", "pay"]).toContain(message.name);
      expect(other).toMatchObject({ role: "tool", callId: message.callId });
    } else expect(timeless(message)).toEqual(other && timeless(other));
  });
  for (const effect of once) expect(played.ledger.filter((line) => line === effect).length).toBeLessThanOrEqual(1);
}

describe("a process that dies at any port call", () => {
  let clean: Played;

  beforeAll(async () => {
    clean = await play();
  });

  test("plays the story as told when nobody dies", () => {
    expect(clean.run).toMatchObject({
      status: "completed",
      stopReason: "answered",
      turns: 5,
      reasks: 1,
      verifications: 1,
    });
    expect(clean.run.summary).toBeDefined();
    expect(clean.kept).toEqual([expect.stringMatching(/^[put done]{12000,}$/)]);
    expect([...clean.ledger].sort()).toEqual([
      "look matrix-1:call-1-1",
      "look matrix-1:call-2-2",
      "pay matrix-1:call-2-1",
      "post matrix-1:call-1-2",
      "put matrix-1:call-1-3",
    ]);
    expect(clean.calls.length).toBeGreaterThan(40);
  });

  test.each(["before", "after", "lost"] as const)("[G1] [G2] [G4] leaves a sound run: %s", async (when) => {
    for (let call = 1; call <= clean.calls.length; call += 1) {
      const played = await play({ call, when });
      try {
        expectSound(played, clean);
      } catch (error) {
        throw new Error(`death ${when} call ${call} (${clean.calls[call - 1]}): ${(error as Error).message}`);
      }
    }
  });

  test("[G2] redelivering every step changes nothing", async () => {
    const played = await play(undefined, true);
    expectSound(played, clean);
    expect(played.messages.map(timeless)).toEqual(clean.messages.map(timeless));
    expect([...played.ledger].sort()).toEqual([...clean.ledger].sort());
  });
});
