// npm run bench:watchers [-- --json] [--seconds N]
//
// Watchers of live runs over real sockets on one server process: whether each gets every event once and in order, what
// the server takes, and how long an event is on its way from a worker's write to a client.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import Table from "cli-table3";
import { endWithUs, openScratch } from "../scripts/scratch/scratch.ts";
import { startEmbeddedRedis } from "../src/embedded/redis.ts";
import { openSse } from "../test/support/sse-client.ts";
import { quantile } from "./stats.ts";
import { now, type ServerStats, type WriterPlan, type Written } from "./watchers-protocol.ts";

const { values: flags } = parseArgs({ options: { json: { type: "boolean" }, seconds: { type: "string" } } });
const seconds = Number(flags.seconds ?? 20);
const cases = [
  { watchers: 100, runs: 10 },
  { watchers: 100, runs: 100 },
  { watchers: 1_000, runs: 100 },
];

type Row = {
  watchers: number;
  runs: number;
  events: number;
  eventsPerSecond: number;
  /** Streams that were not the run's feed, each event once and in order. */
  wrong: number;
  entryMs: { p50: number; p99: number };
  textMs: { p50: number; p99: number };
  server: { rssMb: number; cpuPercent: number };
};

const say = (line: string): void => void process.stderr.write(`${line}\n`);

function start(name: string, args: string[]): ChildProcess {
  const file = fileURLToPath(new URL(name, import.meta.url));
  return endWithUs(fork(file, args, { stdio: ["ignore", "inherit", "inherit", "ipc"] }));
}

async function ask<T>(child: ChildProcess, message: object): Promise<T> {
  const answer = once(child, "message") as Promise<[T]>;
  child.send(message);
  return (await answer)[0];
}

/** What one watcher has got, checked as it comes. */
class Seen {
  seq = 0;
  text = "";
  events = 0;
  wrong: string | undefined;

  take(id: string, event: string, data: string): void {
    this.events += 1;
    const { seq, text } = JSON.parse(data) as { seq: number; text?: string };
    if (event === "text") this.text += text ?? "";
    else if (event === "text_superseded") this.wrong ??= `text was void at ${id}`;
    else if (seq !== this.seq + 1) this.wrong ??= `entry ${seq} came after ${this.seq}`;
    else this.seq = seq;
  }
}

async function measure(redisUrl: string, { watchers, runs }: { watchers: number; runs: number }): Promise<Row> {
  const prefix = `{watch-${watchers}-${runs}-${process.pid}}`;
  const server = start("watchers-server.ts", [redisUrl, prefix]);
  const [{ url }] = (await once(server, "message")) as [{ url: string }];
  const writer = start("watchers-writer.ts", [redisUrl, prefix]);
  await once(writer, "message");
  const plan: WriterPlan = { runs, seconds, everyMs: 250 };
  const ids = await ask<string[]>(writer, { create: plan });
  const entryMs: number[] = [];
  const textMs: number[] = [];
  const all = Array.from({ length: watchers }, (_, index) => {
    const seen = new Seen();
    const runId = ids[index % runs] ?? "";
    const stream = openSse(`${url}/runs/${runId}/events`, {
      onEvent({ id, event, data }) {
        const at = now();
        seen.take(id, event, data);
        // An answer repeats its text, whose stamps were counted when it came.
        if (event === "model_answered") return;
        for (const [, kind, sentAt] of data.matchAll(/@(entry|text) (\d+\.\d+)@/g)) {
          (kind === "entry" ? entryMs : textMs).push(at - Number(sentAt));
        }
      },
    });
    return { runId, seen, stream };
  });
  // All have their first event before the writer goes on.
  while (all.some(({ seen }) => seen.events === 0)) await new Promise((resolve) => setTimeout(resolve, 50));
  await ask<ServerStats>(server, { stats: true });
  const startedAt = now();
  const written = await ask<Written>(writer, { write: true });
  await Promise.all(all.map(({ stream }) => stream.ended));
  const elapsedMs = now() - startedAt;
  const { peakRssBytes, cpuMs } = await ask<ServerStats>(server, { stats: true });
  const wrong = all.filter(({ runId, seen }) => {
    const { seq, text } = written[runId] ?? { seq: -1, text: "" };
    return seen.wrong !== undefined || seen.seq !== seq || seen.text !== text;
  });
  for (const { runId, seen } of wrong.slice(0, 3))
    say(`${runId}: ${seen.wrong ?? `ended at ${seen.seq}, ${seen.text.length} characters`}`);
  for (const child of [server, writer]) {
    child.send({ stop: true });
    await once(child, "exit");
  }
  const events = all.reduce((sum, { seen }) => sum + seen.events, 0);
  return {
    watchers,
    runs,
    events,
    eventsPerSecond: Math.round((events / elapsedMs) * 1_000),
    wrong: wrong.length,
    entryMs: { p50: quantile(entryMs, 0.5), p99: quantile(entryMs, 0.99) },
    textMs: { p50: quantile(textMs, 0.5), p99: quantile(textMs, 0.99) },
    server: { rssMb: Math.round(peakRssBytes / 1_048_576), cpuPercent: Math.round((cpuMs / elapsedMs) * 100) },
  };
}

const dir = openScratch("drover-watchers-", "bench:watchers: stopped before its end");
const redis = await startEmbeddedRedis({ dir });
const rows: Row[] = [];
try {
  for (const each of cases) {
    say(`${each.watchers} watchers on ${each.runs} runs, ${seconds} s`);
    rows.push(await measure(redis.url, each));
  }
} finally {
  await redis.stop();
}
if (flags.json) process.stdout.write(`${JSON.stringify(rows, null, 2)}\n`);
else {
  const table = new Table({
    head: ["watchers", "runs", "events", "events/s", "wrong", "entry p50/p99 ms", "text p50/p99 ms", "RSS MB", "CPU %"],
  });
  const pair = ({ p50, p99 }: { p50: number; p99: number }): string => `${p50.toFixed(1)} / ${p99.toFixed(1)}`;
  for (const row of rows) {
    const { watchers, runs, events, eventsPerSecond, wrong, entryMs, textMs, server } = row;
    const cells = [watchers, runs, events, eventsPerSecond, wrong, pair(entryMs), pair(textMs)];
    table.push([...cells, server.rssMb, server.cpuPercent]);
  }
  process.stdout.write(`${table.toString()}\n`);
}
process.exitCode = rows.some(({ wrong }) => wrong > 0) ? 1 : 0;
