// Catches: an effect that takes place twice, or whose outcome nobody is told, because a process died between the effect
// and the commit of its result. Processes die inside one program, so that there can be ten thousand deaths at exactly
// that place: before the result is committed, with that commit on its way, and right after.
import { expect, test } from "vitest";
import { z } from "zod";
import { type Played, play } from "../../src/chaos/play.ts";
import { judgePlay } from "../../src/chaos/points.ts";
import type { PointFault } from "../../src/chaos/ports.ts";
import { makeCall, type Script } from "../../src/chaos/script.ts";
import { type Agent, defineAgent } from "../../src/define-agent.ts";
import { recordEffect, scriptedModel } from "../../src/testing/index.ts";
import { defineTool, type Tool } from "../../src/tools/define-tool.ts";
import { tellFigure } from "./support/figure.ts";
import { isLong, seeded } from "./support/seed.ts";

const kills = isLong ? 10_000 : 300;
const timeLimitMs = isLong ? 2_400_000 : 120_000;
const done = new Set<string>();

function effect(
  name: string,
  more: Partial<Parameters<typeof defineTool>[0]>,
  act: (key: string, what: string) => void = recordEffect,
): Tool {
  return defineTool({
    name,
    description: `The tool ${name}.`,
    parameters: z.object({ note: z.string() }),
    execute: (_args, { idempotencyKey }) => {
      act(idempotencyKey, name);
      return `${name} done`;
    },
    ...(more as object),
  });
}

/** Honours its key: the other side of it keeps a list of those it has seen. */
function onceForKey(key: string, what: string): void {
  if (!done.has(key)) recordEffect(key, what);
  done.add(key);
}

const tools = [
  effect("post", { effect: "write" }),
  effect("pay", { effect: "irreversible", approval: "never" }),
  effect("put", { effect: "write", idempotent: true }, onceForKey),
];
const agent: Agent = defineAgent({ name: "effects", instructions: "Act.", model: scriptedModel([]), tools });
const isReal = (): boolean => true;

/** Where a tool has had its effect and its result is not committed yet: at its call, and up to the commit after it. */
function placesBetween(calls: readonly string[]): PointFault[] {
  return calls.flatMap((label, index): PointFault[] => {
    if (label !== "tools.execute") return [];
    const commit = calls.indexOf("store.commit", index);
    const between = Array.from({ length: commit - index }, (_, offset) => index + 2 + offset);
    return [
      { call: index + 1, fault: "kill_after" },
      ...between.flatMap((call): PointFault[] => [
        { call, fault: "kill_before" },
        { call, fault: "kill_in_flight" },
      ]),
      { call: commit + 1, fault: "kill_after" },
    ];
  });
}

test(
  `[G4] [D18] ${kills} kills between an effect and its commit: at most once, and each unknown outcome is told`,
  async () => {
    const random = seeded();
    const totals = { kills: 0, once: 0, twice: 0, unknown: 0, untold: 0, completed: 0, plays: 0 };
    while (totals.kills < kills) {
      const runId = `effects-${totals.plays}`;
      const script: Script = [
        { text: "both", toolCalls: random.shuffled(tools).flatMap((tool) => makeCall(tool, random) ?? []) },
        { text: "one", toolCalls: [random.pick(tools)].flatMap((tool) => makeCall(tool, random) ?? []) },
        { text: "done", toolCalls: [] },
      ];
      const options = { agent, runId, seed: random.seed, scripts: () => script, isReal };
      done.clear();
      const undisturbed = await play({ ...options, schedule: [] });
      for (const fault of placesBetween(undisturbed.calls)) {
        if (totals.kills >= kills) break;
        done.clear();
        const played = await play({ ...options, schedule: [fault] });
        expect({ fault, findings: judgePlay(options, runId, played, undisturbed) }).toEqual({ fault, findings: [] });
        // Calls that go side by side come in another order now and then, and a fault may find nothing to befall.
        if (played.happened.length > 0) add(totals, played);
      }
      totals.plays += 1;
    }
    tellFigure(
      "effects",
      `${totals.kills} kills between an effect and its commit, ${totals.completed} runs completed, ` +
        `${totals.once} effects of tools that may not run again, ${totals.twice} of them twice, ` +
        `${totals.unknown} unknown outcomes told, ${totals.untold} not told`,
    );
    expect(totals).toMatchObject({ twice: 0, untold: 0, completed: totals.kills });
    expect(totals.unknown).toBeGreaterThan(totals.kills / 10);
  },
  timeLimitMs,
);

/** Counted here from what took place, without the judge. */
function add(
  totals: Record<"kills" | "once" | "twice" | "unknown" | "untold" | "completed", number>,
  played: Played,
): void {
  totals.kills += played.happened.length;
  if (played.run?.status === "completed") totals.completed += 1;
  const effects = played.executions.filter((entry) => entry.type === "effect");
  const ofKey = Map.groupBy(effects, ({ key }) => key);
  const results = played.messages.filter((message) => message.role === "tool");
  totals.unknown += results.filter(({ outcome }) => outcome === "unknown").length;
  for (const [key, taken] of ofKey) {
    if (taken.length > 1) totals.twice += 1;
    if (taken[0]?.what !== "put") totals.once += 1;
    const told = results.some(
      ({ callId, outcome }) => key.endsWith(`:${callId}`) && (outcome === "ok" || outcome === "unknown"),
    );
    if (!told) totals.untold += 1;
  }
}
