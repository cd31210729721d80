import type { Pause } from "../../core/run.ts";
import type { RunView } from "../../engine/run-view.ts";
import type { FleetView, GateView, QueueState, WorkerPresence } from "../../ports.ts";
import { count, toDuration, toOneLine } from "../format/text.ts";
import type { Diagnosis } from "./diagnosis.ts";

/** What workers, queues and limits are like. `busy`: agents that runs are waiting or running of. */
export function judgeFleet(view: FleetView, busy: ReadonlySet<string>): Diagnosis[] {
  const { paused } = view;
  const judge = paused ? judgePausedQueue : judgeQueue;
  return [
    ...(paused ? [judgeFleetPause(paused, view)] : []),
    ...view.queues.map(judge),
    judgeWorkers(view),
    ...judgeAgents(view, busy),
    ...judgeGates(view),
  ];
}

/** A step that could have been taken so long ago waits too long. */
const longWaitMs = 60_000;

function judgeQueue({ name, waiting, active, delayed, oldestAgeMs, paused, workers }: QueueState): Diagnosis {
  const check = `queue ${name}`;
  const counts = `${waiting} waiting, ${active} active, ${delayed} delayed`;
  if (paused) {
    const detail = `${counts}: paused by BullMQ's own pause, so nothing of it is taken; resume it with the program that paused it`;
    return { check, state: "warning", detail };
  }
  if (oldestAgeMs === undefined) return { check, state: "ok", detail: counts };
  const detail = `${counts}, the oldest for ${toDuration(oldestAgeMs)}`;
  if (workers === 0) return { check, state: "warning", detail: `${detail}: no worker serves it; start one` };
  if (oldestAgeMs <= longWaitMs) return { check, state: "ok", detail };
  const served = `${count(workers, "worker serves", "workers serve")} it`;
  return { check, state: "warning", detail: `${detail}; ${served}: start more, or raise --concurrency` };
}

/** What waits is to wait. */
function judgePausedQueue({ name, waiting, active, delayed }: QueueState): Diagnosis {
  return { check: `queue ${name}`, state: "ok", detail: `${waiting} waiting, ${active} active, ${delayed} delayed` };
}

function judgeFleetPause({ by, reason, at: since }: Pause, { at, workers }: FleetView): Diagnosis {
  const taking = workers.filter(({ paused }) => !paused).length;
  const who = `paused by ${toOneLine(by, 80)} for ${toDuration(at - since)} (${toOneLine(reason, 200)})`;
  const rest = taking === 0 ? "" : `; ${count(taking, "worker")} of another version or not heard of yet may take steps`;
  return { check: "fleet", state: "warning", detail: `${who}${rest}: "drover resume --all" lets it go on` };
}

const namesShown = 10;

function judgeWorkers({ workers, queues }: FleetView): Diagnosis {
  const check = "workers";
  const waiting = queues.reduce((sum, queue) => sum + queue.waiting, 0);
  if (workers.length === 0) {
    if (waiting === 0) return { check, state: "ok", detail: "none, and nothing waits" };
    return { check, state: "warning", detail: `none, and ${count(waiting, "step")} waiting: start a worker` };
  }
  const sum = (field: "running" | "concurrency"): number => workers.reduce((total, one) => total + one[field], 0);
  const detail = `${count(workers.length, "process", "processes")} on ${hostsOf(workers)}, ${sum("running")} of ${sum("concurrency")} steps at a time; agents ${agentsOf(workers)}`;
  const versions = [...new Set(workers.map(({ version }) => toOneLine(version, 40)))];
  if (versions.length === 1) return { check, state: "ok", detail };
  return { check, state: "warning", detail: `${detail}; of versions ${versions.join(", ")}: finish the deploy` };
}

function hostsOf(workers: readonly WorkerPresence[]): string {
  return listed(workers.map(({ host }) => host));
}

function agentsOf(workers: readonly WorkerPresence[]): string {
  return listed(workers.flatMap(({ agents }) => agents));
}

function listed(names: readonly string[]): string {
  const all = [...new Set(names)].map((name) => toOneLine(name, 64));
  const rest = all.length - namesShown;
  return `${all.slice(0, namesShown).join(", ")}${rest > 0 ? ` and ${rest} more` : ""}`;
}

/** Agents whose runs wait for a worker that knows them. */
function judgeAgents({ workers }: FleetView, busy: ReadonlySet<string>): Diagnosis[] {
  const known = new Set(workers.flatMap(({ agents }) => agents));
  const lost = [...busy].filter((agent) => !known.has(agent));
  if (lost.length === 0) return [];
  const detail = `no worker knows ${listed(lost)}, of which there are runs: start one that does, or cancel them`;
  return [{ check: "agents", state: "warning", detail }];
}

function judgeGates({ gates, at }: FleetView): Diagnosis[] {
  const held = gates.flatMap((gate) => [...judgeBreaker(gate, at), ...judgePause(gate, at)]);
  if (held.length > 0 || gates.length === 0) return held;
  const inside = gates.reduce((sum, gate) => sum + gate.inside, 0);
  const waiting = gates.reduce((sum, gate) => sum + gate.waiting, 0);
  const detail = `${count(gates.length, "limit")} over the fleet, none switched off: ${inside} inside, ${waiting} waiting`;
  return [{ check: "limits", state: "ok", detail }];
}

function judgeBreaker({ kind, name, breaker }: GateView, at: number): Diagnosis[] {
  if (breaker?.openUntil === undefined || breaker.openUntil <= at) return [];
  const left = toDuration(breaker.openUntil - at);
  const detail = `switched off for ${left} more after ${count(breaker.failures, "failure")} in a row: look at what it calls; it is tried again by itself`;
  return [{ check: `${kind} ${toOneLine(name, 64)}`, state: "warning", detail }];
}

function judgePause({ kind, name, pausedUntil, waiting }: GateView, at: number): Diagnosis[] {
  if (pausedUntil === undefined || pausedUntil <= at) return [];
  const detail = `paused for ${toDuration(pausedUntil - at)} more, as its server asked, ${waiting} waiting: lower its rate, or raise your quota there`;
  return [{ check: `${kind} ${toOneLine(name, 64)}`, state: "warning", detail }];
}

const longAskMs = 86_400_000;

/** Calls that wait for a person: how many, and whether somebody forgot them. `at`: epoch ms. */
export function judgePersons(runs: readonly RunView[], at: number): Diagnosis {
  const check = "persons";
  const asked = runs
    .flatMap(({ runId, openCalls }) => openCalls.map((call) => ({ runId, ...call })))
    .filter(
      ({ state, from }) => state === "approval" || state === "asking" || (state === "answer" && from !== "caller"),
    )
    .toSorted((a, b) => (a.askedAt ?? at) - (b.askedAt ?? at));
  const [oldest] = asked;
  if (!oldest) return { check, state: "ok", detail: "no call waits for anybody" };
  const ageMs = at - (oldest.askedAt ?? at);
  const detail = `${count(asked.length, "call waits", "calls wait")} for a person, the oldest for ${toDuration(ageMs)}`;
  if (ageMs <= longAskMs) return { check, state: "ok", detail };
  const named = asked.slice(0, 3).map(({ runId, callId }) => `${runId} ${callId}`);
  return {
    check,
    state: "warning",
    detail: `${detail} (${named.join(", ")}): approve, deny or answer; "drover show ID" tells what is asked`,
  };
}
