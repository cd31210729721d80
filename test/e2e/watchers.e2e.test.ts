// Catches: a watcher among many that misses an event, gets one twice, or is left behind after a cut.
import { expect, test } from "vitest";
import type { FakeReply } from "../support/fake-openai.ts";
import { turnOf } from "../support/fake-openai.ts";
import { startHttpServer } from "../support/http-server.ts";
import { openSse } from "../support/sse-client.ts";
import { makeWorld, readFeed, resultsOf } from "../support/world.ts";

const turns = 4;
const watchers = 200;
const runCount = 20;

type Got = { seqs: number[]; text: string };

type Server = { url: string; key: string };

/** Watches to the end of the run; cut after so many events, each time at another number, and goes on at another server. */
async function watch(servers: Server[], runId: string, cut: number): Promise<Got> {
  const got: Got = { seqs: [], text: "" };
  let last: string | undefined;
  let ended = false;
  for (let round = 0; !ended; round += 1) {
    // Every second watcher is never cut.
    const most = cut % 2 === 0 ? Number.POSITIVE_INFINITY : 2 + ((cut + 3 * round) % 7);
    let count = 0;
    const { promise: enough, resolve } = Promise.withResolvers<void>();
    const { url, key } = servers[round % servers.length] ?? { url: "", key: "" };
    const stream = openSse(`${url}/runs/${runId}/events`, {
      after: last,
      headers: { authorization: `Bearer ${key}` },
      onEvent({ id, event, data }) {
        if (count >= most) return;
        count += 1;
        last = id;
        const { seq, text = "" } = JSON.parse(data) as { seq: number; text?: string };
        if (event === "text") got.text += text;
        else got.seqs.push(seq);
        if (event === "run_ended") ended = true;
        if (ended || count === most) resolve();
      },
    });
    await Promise.race([enough, stream.ended]);
    stream.cut();
  }
  return got;
}

test(`${watchers} watchers on ${runCount} live runs, half of them cut again and again, each get every event once and in order`, async () => {
  const world = await makeWorld({
    maxTurns: turns + 1,
    respond: ({ body }): FakeReply => {
      const turn = turnOf(body);
      const deltas = [`turn ${turn}: `, "some ", "words ", "that ", "come ", "slowly. "];
      const toolCalls = turn < turns ? [{ name: "look", arguments: { note: `note ${turn}` } }] : [];
      return { deltas, chunkDelayMs: 50, toolCalls };
    },
  });
  await world.work();
  const where = { redis: world.options.redisUrl, prefix: world.prefix };
  const servers = [await startHttpServer(where), await startHttpServer(where)];
  const runs = await Promise.all(
    Array.from({ length: runCount }, (_, index) => world.drover.start("e2e", `run ${index}`, { runId: `w-${index}` })),
  );
  const watching = Array.from({ length: watchers }, (_, index) =>
    watch(servers, `w-${index % runCount}`, Math.floor(index / runCount)),
  );
  const all = await Promise.all(watching);
  await resultsOf(runs, 60_000);
  const feeds = await Promise.all(runs.map(({ id }) => readFeed(world, id)));
  for (const [index, got] of all.entries()) {
    const feed = feeds[index % runCount] ?? [];
    const seqs = feed.flatMap(({ type, seq }) => (type.startsWith("text") ? [] : [seq]));
    const text = feed.map((event) => (event.type === "text" ? event.text : "")).join("");
    expect([index, got]).toEqual([index, { seqs, text }]);
  }
});
