// A small installation with something of everything in it, in memory and by a clock of its own: the same each time. The
// pages are looked at, measured and photographed with it.
import { setTimeout as sleep } from "node:timers/promises";
import { createWatch } from "../../src/engine/watch.ts";
import { createHttp } from "../../src/http/app.ts";
import type { HttpDeps } from "../../src/http/types.ts";
import type { FleetView, WorkerPresence } from "../../src/ports.ts";
import { createSilentLogger } from "../../src/telemetry/logger.ts";
import { type ManualClock, manualClock } from "../../src/testing/manual-clock.ts";
import { openMemoryBackend } from "../../src/testing/memory-drover.ts";
import {
  createMemoryKeyStore,
  createMemoryPresence,
  createMemoryResponseStore,
} from "../../src/testing/memory-operators.ts";
import { sceneAgents } from "./scene-agents.ts";
import { plays } from "./scene-plays.ts";

export type Scene = {
  deps: HttpDeps;
  fetch: (request: Request) => Promise<Response>;
  clock: ManualClock;
  close(): Promise<void>;
};

/** When the scene's last run has come as far as it comes. */
const startAt = Date.UTC(2026, 10, 30, 6, 12, 0);

/** @param change what else is to be other than usual. */
export async function openScene(change: Partial<HttpDeps> = {}): Promise<Scene> {
  const clock = manualClock(startAt);
  const agents = sceneAgents(clock, plays);
  const { drover, engine, store, signals, redaction } = openMemoryBackend({ agents, clock });
  await drover.work();
  await play(drover, engine, clock);
  const presence = createMemoryPresence({ clock });
  const fleet = await fleetOf(drover, clock);
  for (const worker of fleet.workers) await presence.tell(worker, fleet.agents, [], 86_400_000);
  const deps: HttpDeps = {
    runs: drover,
    store,
    watch: createWatch({ store, signals }),
    fleet: { read: async () => ({ ...fleet, at: clock.now() }) },
    pausing: drover,
    presence,
    keys: createMemoryKeyStore({ clock }),
    responses: createMemoryResponseStore({ clock }),
    redactor: redaction.redactor,
    logger: createSilentLogger(),
    now: () => clock.now(),
    ready: async () => {},
    settings: {
      bodyLimitBytes: 1_000_000,
      requestTimeoutMs: 30_000,
      heartbeatMs: 15_000,
      traceUrl: "https://traces.example.org/trace/{traceId}",
      secureCookies: false,
      keyless: true,
    },
    ...change,
  };
  const http = createHttp(deps);
  return { deps, fetch: (request) => http(request, { address: "127.0.0.1" }), clock, close: () => drover.close() };
}

type Backend = ReturnType<typeof openMemoryBackend>;

async function play(drover: Backend["drover"], engine: Backend["engine"], clock: ManualClock): Promise<void> {
  const rest = (runId: string, until: string[]): Promise<void> => restAt(drover, clock, { runId, until });
  const run = async (
    [agent, runId, input]: [string, string, string],
    until: string[],
    options: Parameters<typeof drover.start>[2] = {},
  ): Promise<void> => {
    await drover.start(agent, input, { runId, by: "shop-backend", ...options });
    await rest(runId, until);
    clock.advance(97_000);
  };
  const ended = ["completed", "failed"];
  await run(["historian", "archive-1998", "Go through the archive of 1998 and tell what changed."], ended, {
    metadata: { project: "archive" },
  });
  clock.advance(3_600_000);
  await run(["support", "ticket-88213-a", "Where is my order A-20417? It should have come by now."], ended, {
    session: "customer-4711",
    metadata: { channel: "mail", customer: "4711" },
  });
  await run(["support", "ticket-88213-b", "Thank you! Can I still return it if I do not like it?"], ended, {
    session: "customer-4711",
    metadata: { channel: "mail", customer: "4711" },
  });
  await run(["researcher", "brief-redis-streams", "Compare the durability of Redis streams and lists."], ended);
  await run(["researcher", "brief-loop", "Find every page that mentions the loop."], ended, {
    limits: { maxTurns: 4 },
  });
  await run(["researcher", "brief-badkey", "Summarise the pages that the badkey refers to."], ended);
  await engine.client.reject({
    runId: "import-3309",
    agent: "support",
    reason: "input: expected text or a list of messages, got a number.",
  });
  clock.advance(41_000);
  await run(["release-manager", "release-4.1.0-db", "Migrate the database for release 4.1.0."], ["waiting"], {
    metadata: { release: "4.1.0" },
  });
  await run(
    ["support", "ticket-88240", "My new keyboard (order A-20417) is faulty. I want my money back."],
    ["waiting"],
    {
      metadata: { channel: "chat", customer: "4711" },
    },
  );
  await run(["support", "ticket-88239", "Where should the replacement go? Please ask the customer."], ["waiting"], {
    metadata: { channel: "phone", customer: "5120" },
  });
  await drover.start("support", "How late are you open?", { runId: "ticket-88241", by: "shop-backend", delayMs: 9e6 });
  await drover.get("ticket-88241").cancel({ by: "ann", reason: "the customer called instead" });
  clock.advance(12_000);
  await run(["release-manager", "release-4.1.0", "Roll out release 4.1.0."], ["waiting"], {
    metadata: { release: "4.1.0" },
  });
  await drover.start("translator", "Translate the release notes to Finnish.", { runId: "notes-fi", by: "docs-bot" });
  await rest("notes-fi", ["waiting"]);
  clock.advance(8_000);
  await drover.start("researcher", "Write a brief on append-only files.", { runId: "brief-aof", by: "ann" });
  await rest("brief-aof", ["turn 1"]);
  clock.advance(6_400);
}

/** Resolves when the run is in one of these states. Time goes on only when nothing else does, so that it is the same each time. */
async function restAt(
  drover: Backend["drover"],
  clock: ManualClock,
  { runId, until }: { runId: string; until: string[] },
): Promise<void> {
  let before = "";
  let still = 0;
  for (;;) {
    const view = await drover.get(runId).status();
    if (until.includes(view.status) || until.includes(`turn ${view.turns}`)) return;
    const now = JSON.stringify(view);
    still = now === before ? still + 1 : 0;
    before = now;
    if (still > 8) {
      clock.advance(500);
      still = 0;
    }
    await sleep(5);
  }
}

async function fleetOf(drover: Backend["drover"], clock: ManualClock): Promise<FleetView> {
  const at = clock.now();
  const worker = (host: string, pid: number, running: number, agents: string[]): WorkerPresence => ({
    id: `${host}-${pid}`,
    host,
    pid,
    version: "0.1.0",
    startedAt: at - 9_400_000 - pid,
    seenAt: at - 1_300,
    queues: ["model", "tools"],
    concurrency: 100,
    running,
    agents,
  });
  const main = ["support", "researcher", "historian"];
  const workers = [
    worker("worker-eu-1", 4120, 41, main),
    worker("worker-eu-2", 4122, 38, main),
    worker("worker-us-1", 977, 3, ["release-manager"]),
  ];
  const agent = (name: string, tools: string[], version?: string): FleetView["agents"][number] => ({
    name,
    model: "gpt-5-mini",
    tools,
    version,
    seenAt: at - 1_300,
  });
  return {
    at,
    redis: {
      version: "8.2.1",
      usedMemoryBytes: 412_300_000,
      maxMemoryBytes: 4_000_000_000,
      clients: 37,
      roundTripMs: 0.42,
    },
    workers,
    agents: [
      agent("historian", ["fetch_page"]),
      agent("release-manager", ["run_migration", "deploy"], "3"),
      agent("researcher", ["fetch_page", "search_policy"], "7"),
      agent("support", ["get_order", "search_policy", "issue_refund"], "12"),
    ],
    queues: [
      { name: "runs", waiting: 0, active: 1, delayed: 0, workers: 3 },
      { name: "model", waiting: 14, active: 71, delayed: 6, oldestAgeMs: 2_340, workers: 3 },
      { name: "tools", waiting: 3, active: 11, delayed: 22, oldestAgeMs: 610, workers: 3 },
      { name: "tools-browser", waiting: 9, active: 0, delayed: 0, oldestAgeMs: 184_000, workers: 0 },
    ],
    gates: [
      {
        key: "m1",
        kind: "model",
        name: "gpt-5-mini",
        rate: { max: 500, perMs: 60_000 },
        concurrency: 80,
        inside: 71,
        waiting: 14,
        pausedUntil: at + 21_000,
      },
      {
        key: "t1",
        kind: "tool",
        name: "fetch_page",
        rate: { max: 20, perMs: 60_000 },
        inside: 2,
        waiting: 6,
        breaker: { version: 4, failures: 10, openUntil: at + 17_000, openMs: 30_000 },
      },
      { key: "t2", kind: "tool", name: "search_policy", concurrency: 8, inside: 3, waiting: 0 },
      { key: "t3", kind: "tool", name: "get_order", inside: 1, waiting: 0, breaker: { version: 2, failures: 2 } },
    ],
    counts: await drover.count(),
    owing: { count: 5, oldestSince: at - 8_400 },
  };
}
