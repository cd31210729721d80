// Catches: a worker that answers a primary's demotion with thousands of tries and lines a second, or does its work twice after it.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { startLossyRelay } from "../support/lossy-relay.ts";
import { startTestRedis } from "../support/redis.ts";
import { freePort } from "../support/redis-server.ts";
import { makeWorld, resultsOf } from "../support/world.ts";
import { most, tellFigure } from "./support/figure.ts";
import { judge } from "./support/judge.ts";
import { observe } from "./support/process-facts.ts";
import { isLong, seeded } from "./support/seed.ts";

const demotedMs = isLong ? 10_000 : 4_000;
const mostLines = 20;
const mostCpu = 0.1;
const steps = 5;

/** The first answer calls a tool that may not run twice and waits for the test in the middle of it. */
function respond({ body }: FakeRequest): FakeReply {
  if (turnOf(body) > 1) return { text: "done" };
  return { toolCalls: [{ name: "post", arguments: { note: "a", hold: true } }] };
}

test("[Q15] [G4] a primary that refuses writes for a while costs little, and nothing runs twice after it", async () => {
  const { seed } = seeded();
  const server = await startTestRedis({ own: true });
  onTestFinished(() => server.stop());
  const world = await makeWorld({ respond, server });
  const workers = [await world.work(), await world.work()];
  const ids = Array.from({ length: steps }, (_, index) => `demoted-${index}`);
  const runs = await Promise.all(ids.map((runId) => world.drover.start("e2e", `${runId} go`, { runId })));
  const visits = await Promise.all(ids.map((runId) => world.gate.next({ runId })));
  await server.cli("REPLICAOF", "127.0.0.1", String(await freePort()));
  const measured = observe(workers);
  for (const visit of visits) visit.release("it was done");
  await sleep(demotedMs);
  const facts = measured();
  for (const { cpuShare, logLines } of facts) {
    expect(logLines).toBeLessThan(mostLines);
    expect(cpuShare).toBeLessThan(isLong ? mostCpu : 2 * mostCpu);
  }
  await server.cli("REPLICAOF", "NO", "ONE");
  await resultsOf(runs, 30_000);
  expect(world.ledger.entries().length).toBe(steps);
  await judge(world, { seed, statuses: ["completed"] });
  const cpu = Math.max(...facts.map(({ cpuShare }) => 100 * cpuShare)).toFixed(1);
  const lines = most(facts.map(({ logLines }) => logLines));
  tellFigure("Q15", `in ${demotedMs} ms of READONLY a worker took at most ${cpu} % of a core and wrote ${lines} lines`);
});

test("[Q15] a client whose way leads to a new primary once the old one refuses goes on by itself", async () => {
  const { seed } = seeded();
  const args = ["--repl-diskless-sync-delay", "0"];
  const [old, heir] = await Promise.all([startTestRedis({ args }), startTestRedis({ args })]);
  onTestFinished(async () => void (await Promise.all([old.stop(), heir.stop()])));
  const relay = await startLossyRelay(old.url);
  onTestFinished(() => relay.close());
  const world = await makeWorld({ respond, server: { ...old, url: relay.url } });
  await Promise.all([world.work(), world.work()]);
  const { hostname, port } = new URL(old.url);
  await heir.cli("REPLICAOF", hostname, port);
  await eventually(async () =>
    /master_link_status:up/.test(String(await heir.cli("INFO", "replication"))) ? true : undefined,
  );
  const run = await world.drover.start("e2e", "moved go", { runId: "moved" });
  const visit = await world.gate.next({ runId: "moved" });
  const written = Number(/master_repl_offset:(\d+)/.exec(String(await old.cli("INFO", "replication")))?.[1]);
  await eventually(async () => {
    const offset = Number(/slave_repl_offset:(\d+)/.exec(String(await heir.cli("INFO", "replication")))?.[1]);
    return offset >= written ? true : undefined;
  });
  await heir.cli("REPLICAOF", "NO", "ONE");
  await old.cli("REPLICAOF", "127.0.0.1", String(await freePort()));
  // Connections stay open, as with many proxies: only the refusal says that this is not the primary any more.
  relay.moveTo(heir.url, { keep: true });
  visit.release("it was done");
  // A producer finds out by its first write as well.
  const after = await eventually(() =>
    world.drover.start("e2e", "after go", { runId: "after" }).catch(() => undefined),
  );
  expect(await run.result({ timeoutMs: 30_000 })).toMatchObject({ status: "completed", output: "done" });
  (await world.gate.next({ runId: "after" })).release("it was done");
  expect(await after.result({ timeoutMs: 30_000 })).toMatchObject({ status: "completed", output: "done" });
  expect(world.ledger.entries().map(({ runId }) => runId)).toEqual(["moved", "after"]);
  await judge(world, { seed });
});
