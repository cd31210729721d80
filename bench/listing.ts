// node bench/listing.ts [--runs 100000]
//
// What listing and counting cost Redis with many runs in it: time inside Redis for one call (from INFO commandstats),
// time until the caller has its page, and bytes of the indexes per run.

import { parseArgs } from "node:util";
import { openScratch } from "../scripts/scratch/scratch.ts";
import { makeRun } from "../src/core/new-run.ts";
import { type Run, runStatuses } from "../src/core/run.ts";
import { startEmbeddedRedis } from "../src/embedded/redis.ts";
import type { RunFilter } from "../src/ports.ts";
import { connect } from "../src/redis/connection.ts";
import { createKeys } from "../src/redis/keys.ts";
import { createRedisRunStore } from "../src/redis/run-store.ts";

const { values } = parseArgs({ options: { runs: { type: "string", default: "100000" } } });
const count = Number(values.runs);
const dir = openScratch("drover-listing-", "listing: stopped before its end");
const server = await startEmbeddedRedis({ dir });
const connection = connect(server.url, { role: "worker" });
const { client } = connection;
const keys = createKeys();
const store = createRedisRunStore({ connection, keys });
const firstAt = Date.UTC(2026, 0, 1);

function runOf(index: number): Run {
  const trace = { traceId: "0af7651916cd43dd8448eb211c80319c", rootSpanId: "b7ad6b7169203331", flags: 1 };
  const runId = `run-${String(index).padStart(7, "0")}`;
  const agent = `agent-${index % 10}`;
  const messages = [{ role: "user" as const, content: "hello" }];
  const metadata = { customer: `c${index % 1_000}`, channel: "mail", rare: index === 10 ? "yes" : "no" };
  const tenant = index % 100 === 0 ? "small" : `t${index % 5}`;
  const session = index % 50 === 0 ? { session: `s${index % 500}` } : {};
  const run = makeRun({
    ...{ runId, agent, messages, metadata, tenant, trace, inputHash: "h", token: `t${index}` },
    at: firstAt + index * 1_000,
  });
  const status = runStatuses[index % 97 === 0 ? 5 : index % 3 === 0 ? 1 : 4] ?? "completed";
  return { ...run, ...session, status };
}

async function usec(): Promise<number> {
  const text = await client.info("commandstats");
  return [...text.matchAll(/^cmdstat_(?!info)[^:]*:calls=\d+,usec=(\d+)/gm)].reduce(
    (sum, [, own]) => sum + Number(own),
    0,
  );
}

async function measure(name: string, act: () => Promise<string>): Promise<void> {
  await act();
  const times: { redis: number; all: number }[] = [];
  let note = "";
  for (let round = 0; round < 7; round += 1) {
    const before = await usec();
    const startedAt = performance.now();
    note = await act();
    const all = performance.now() - startedAt;
    times.push({ redis: ((await usec()) - before) / 1_000, all });
  }
  const median = (of: (time: { redis: number; all: number }) => number): string =>
    (times.map(of).toSorted((a, b) => a - b)[3] ?? 0).toFixed(2);
  console.log(`| ${name} | ${median(({ redis }) => redis)} | ${median(({ all }) => all)} | ${note} |`);
}

const page = (filter: RunFilter) => async (): Promise<string> => {
  const { runs, cursor } = await store.list({ limit: 50, ...filter });
  return `${runs.length} runs${cursor === undefined ? "" : ", more"}`;
};

try {
  for (let from = 0; from < count; from += 1_000) {
    const some = Array.from({ length: Math.min(1_000, count - from) }, (_, index) => runOf(from + index));
    await Promise.all(some.map((run) => store.create(run, [{ role: "user", content: "hello" }], [])));
  }
  const middle = firstAt + (count / 2) * 1_000;
  const cursor = (await store.list({ limit: 1, createdBefore: middle })).cursor;
  console.log(`${count} runs. Median of 7 calls, ms:\n\n| | in Redis | until answered | |\n| --- | --- | --- | --- |`);
  await measure("no filter", page({}));
  await measure("no filter, from the middle", page({ cursor }));
  await measure("1,000 to a page", page({ limit: 1_000 }));
  await measure("status", page({ status: "failed" }));
  await measure("agent", page({ agent: "agent-3" }));
  await measure("session", page({ session: "s50" }));
  await measure("tenant", page({ tenant: "t1" }));
  await measure("tenant and status", page({ tenant: "t1", status: "failed" }));
  await measure("small tenant and status", page({ tenant: "small", status: "completed" }));
  await measure(
    "tenant, agent and status that never meet",
    page({ tenant: "t1", agent: "agent-2", status: "completed" }),
  );
  await measure("metadata, one in 1,000", page({ metadata: { customer: "c7" } }));
  await measure("metadata that the oldest alone has", page({ metadata: { rare: "yes" } }));
  await measure("an hour in the middle", page({ createdAfter: middle, createdBefore: middle + 3_600_000 }));
  await measure(
    "an hour and a status",
    page({ createdAfter: middle, createdBefore: middle + 3_600_000, status: "failed" }),
  );
  await measure("whole id of the oldest", page({ search: "run-0000001", limit: 1 }));
  await measure("part of an id", page({ search: "77" }));
  await measure("part of an id that nobody has", page({ search: "zzz" }));
  await measure("count of all", async () => JSON.stringify(await store.count()).slice(0, 40));
  await measure("count of a tenant", async () => JSON.stringify(await store.count({ tenant: "t1" })).slice(0, 40));
  await measure("count of an agent", async () => JSON.stringify(await store.count({ agent: "agent-1" })).slice(0, 40));
  const sizes = await Promise.all(
    [...keys.listsByStatus, keys.listByTenant("t1"), keys.counts, keys.countsOfTenant("t1")].map(async (key) => {
      const bytes = Number(await client.call("MEMORY", "USAGE", key, "SAMPLES", "0"));
      return `${key} ${bytes} bytes`;
    }),
  );
  console.log(`\n${sizes.join("\n")}`);
} finally {
  await connection.close();
  await server.stop();
}
