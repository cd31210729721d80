import { toError } from "../core/errors.ts";
import type { FeedEntry } from "../core/event.ts";
import type { Message } from "../core/message.ts";
import { isEnded, type Run } from "../core/run.ts";
import type { Agent } from "../define-agent.ts";
import { outputOf } from "../engine/output-of.ts";
import { sweep } from "../engine/sweep.ts";
import type { RunStore } from "../ports.ts";
import { createSilentLogger } from "../telemetry/logger.ts";
import { noteEffects } from "../testing/record-effect.ts";
import type { Tool } from "../tools/define-tool.ts";
import { chaosAgent } from "./chaos-agent.ts";
import { decide } from "./decider.ts";
import { inputOf } from "./doings.ts";
import type { Execution } from "./execution.ts";
import { createFaultyPorts, type PointFault, type PointFaultKind } from "./ports.ts";
import type { Scripts } from "./script.ts";
import { Stage, turn } from "./stage.ts";
import { type MemoryWorld, makeMemoryWorld } from "./world.ts";

export type PlayOptions = {
  agent: Agent;
  runId: string;
  seed: number;
  scripts: Scripts;
  isReal: (tool: Tool) => boolean;
  /** Agents that its tools may hand work to. */
  others?: readonly Cast[] | undefined;
  schedule: readonly PointFault[];
  /** Spoils the store, for tests. */
  breakStore?: ((store: RunStore) => RunStore) | undefined;
};

/** An agent and what its model says. */
export type Cast = { agent: Agent; scripts: Scripts };

type Told = { messages: Message[]; feed: FeedEntry[] };

/** One run as it went. */
export type Played = Told & {
  run: Run | null;
  /** The runs that its calls were, and theirs. */
  children: (Told & { run: Run; answer: string | undefined })[];
  /** Of all of them. */
  executions: Execution[];
  /** Port calls, as `port.method`. */
  calls: readonly string[];
  happened: readonly PointFaultKind[];
  redeliveries: number;
  /** What went wrong beside the run itself; undefined: nothing. */
  trouble?: string | undefined;
};

const mostDeliveries = 3_000;
const mostRounds = 20_000;
const sweepAfterMs = 6_000;

/**
 * Plays one run from its start to its end in memory while the faults of the schedule happen. A process that dies or is
 * frozen is replaced by another, to which its steps are delivered again. Without a tool that has a will of its own, the
 * same options give the same run.
 */
export async function play(options: PlayOptions): Promise<Played> {
  const { runId } = options;
  const executions: Execution[] = [];
  const note = (execution: Execution): void => void executions.push(execution);
  const cast = [{ agent: options.agent, scripts: options.scripts }, ...(options.others ?? [])];
  const knows = (name: string): boolean => cast.some(({ agent }) => agent.name === name);
  const agents = cast.map(({ agent, scripts }) =>
    chaosAgent(agent, { ...options, scripts, knows, note, inOnePiece: true }),
  );
  const world = makeMemoryWorld(options.breakStore);
  const ports = createFaultyPorts(options.schedule);
  const stage = new Stage(world, ports, agents);
  const tools = cast.flatMap(({ agent }) => agent.tools.filter(options.isReal));
  const checks = cast.flatMap(({ agent: { code } }) => (code.answers.verify ? [code.answers.verifyTimeoutMs] : []));
  stage.silenceMs += Math.max(0, ...tools.map(({ timeoutMs }) => timeoutMs), ...checks);
  const release = noteEffects((key, what) => note({ type: "effect", key, what, pid: process.pid, at: Date.now() }));
  let trouble: string | undefined;
  try {
    trouble = await perform(stage, options);
  } catch (error) {
    trouble = toError(error).message;
  } finally {
    release();
    stage.close();
  }
  const { store } = world;
  const run = await store.load(runId);
  const told = async (id: string): Promise<Told> => ({
    messages: await store.readMessages(id, 0, 10_000),
    feed: await store.readFeed(id, 0, 1_000),
  });
  const { runs } = await store.list({ limit: 1_000 });
  return {
    run,
    ...(run ? await told(runId) : { messages: [], feed: [] }),
    children: await Promise.all(
      runs
        .filter(({ parent }) => parent)
        .map(async (child) => {
          const of = await told(child.runId);
          return { run: child, ...of, answer: outputOf(child, of.messages.at(-1)) };
        }),
    ),
    executions,
    calls: ports.calls,
    happened: ports.happened,
    redeliveries: stage.redeliveries,
    trouble,
  };
}

/** @returns what is wrong beside the run, if anything. */
async function perform(stage: Stage, { agent, runId, seed }: PlayOptions): Promise<string | undefined> {
  const { world } = stage;
  await stage.command((engine) => engine.client.start(agent.name, inputOf(runId), { runId }));
  for (let rounds = 0; stage.deliveries < mostDeliveries && rounds < mostRounds; rounds += 1) {
    await turn();
    stage.replaceIfStopped();
    stage.wake(false);
    const took = stage.takeDue();
    if (await stage.nextChange()) continue;
    if (took || stage.wake(true)) continue;
    const run = await world.store.load(runId);
    if (!run) return undefined;
    const asked = await findAsked(world, run, seed);
    if (asked) {
      await settle(stage, asked.run, { callId: asked.callId, seed });
      continue;
    }
    const step = await moveTime(stage);
    if (step === "nothing left") return isEnded(run) ? undefined : "nothing is queued and nobody is asked";
  }
  return `it goes in circles: ${stage.deliveries} deliveries`;
}

/** A call that a person has to decide on: of the run, or of one that a call of it waits for. */
async function findAsked(
  world: MemoryWorld,
  run: Run,
  seed: number,
): Promise<{ run: Run; callId: string } | undefined> {
  if (isEnded(run)) return undefined;
  const call = run.calls.find((open) => decide(seed, run.runId, open) !== undefined);
  if (call) return { run, callId: call.callId };
  for (const { child } of run.calls) {
    const found = child && (await world.store.load(child.runId));
    const asked = found && (await findAsked(world, found, seed));
    if (asked) return asked;
  }
  return undefined;
}

async function settle(stage: Stage, run: Run, { callId, seed }: { callId: string; seed: number }): Promise<void> {
  const call = run.calls.find((open) => open.callId === callId);
  const decision = call && decide(seed, run.runId, call);
  if (!call || !decision) return;
  const decisionId = `${callId}-${call.state}`;
  await stage.command((engine) => {
    const handle = engine.handle(run.runId);
    if (decision.type === "approve") return handle.approve(callId, { by: "ann", decisionId });
    if (decision.type === "deny") return handle.deny(callId, { by: "ann", decisionId, reason: "not today" });
    return handle.answer(callId, decision.value, { by: "ann", decisionId });
  });
}

/** To the next due step, but that a sweeper looks before, if that is a while, whether something is missing. */
async function moveTime({ world }: Stage): Promise<"moved" | "nothing left"> {
  const { clock, queue, store } = world;
  const dueAt = (): number =>
    Math.min(...queue.list().map(({ state, dueAt: at }) => (state === "delayed" ? at : clock.now())));
  if (dueAt() - clock.now() > sweepAfterMs) {
    clock.advance(sweepAfterMs);
    await sweep({ store, queue, clock, logger: createSilentLogger() });
  }
  const next = dueAt();
  if (next === Number.POSITIVE_INFINITY) return "nothing left";
  clock.advance(Math.max(0, next - clock.now()));
  return "moved";
}
