// The worker's part of bench/watchers.ts: it writes runs as steps do, through the store, at a steady rate.

import { setTimeout as sleep } from "node:timers/promises";
import { append, type Draft, log, makeDraft } from "../src/core/change.ts";
import { makeRun } from "../src/core/new-run.ts";
import { noUsage, type Run } from "../src/core/run.ts";
import { connect } from "../src/redis/connection.ts";
import { createKeys } from "../src/redis/keys.ts";
import { createRedisRunStore } from "../src/redis/run-store.ts";
import { createSilentLogger } from "../src/telemetry/logger.ts";
import { now, stamp, type WriterPlan, type Written } from "./watchers-protocol.ts";

const [, , redisUrl = "", prefix = ""] = process.argv;
const logger = createSilentLogger();
const connection = connect(redisUrl, { role: "worker", logger });
const store = createRedisRunStore({ connection, keys: createKeys(prefix), logger });
const trace = { traceId: "0af7651916cd43dd8448eb211c80319c", rootSpanId: "b7ad6b7169203331", flags: 1 };
/** Enough words that those in front are not held back by the redaction of what may be a secret. */
const filler = " the quick brown fox jumps over the lazy dog and runs away from what it did there".repeat(4);

let plan: WriterPlan;
let runs: Run[] = [];
let tokens = 0;

async function create(): Promise<string[]> {
  runs = Array.from({ length: plan.runs }, (_, index) => {
    const messages = [{ role: "user" as const, content: "go" }];
    const made = makeRun({
      runId: `run-${index}`,
      agent: "bench",
      messages,
      inputHash: "x",
      trace,
      at: 1,
      token: `t${index}`,
    });
    return { ...made, status: "running" as const };
  });
  for (const run of runs) {
    await store.create(
      run,
      [{ role: "user", content: "go" }],
      [{ type: "run_created", seq: 1, at: 1, turn: 0, messages: [0, 1] }],
    );
  }
  return runs.map(({ runId }) => runId);
}

async function commit(run: Run, change: (draft: Draft) => void): Promise<Run> {
  tokens += 1;
  const draft = makeDraft(run, { at: Date.now(), token: `c${tokens}` });
  change(draft);
  await store.commit(draft);
  return draft.run;
}

const chunksPerTurn = 5;

/** One run to its end: turns of some pieces of text, an entry in between, and the answer. */
async function write(first: Run, index: number): Promise<{ seq: number; text: string }> {
  let run = first;
  let whole = "";
  const until = now() + plan.seconds * 1_000;
  await sleep((plan.everyMs * index) / plan.runs);
  for (let turn = 1; now() < until; turn += 1) {
    const execution = `x${turn}`;
    let text = "";
    for (let chunk = 0; chunk < chunksPerTurn; chunk += 1) {
      const piece = `${stamp("text")}${filler}`;
      text += piece;
      await store.publishLive(run.runId, [{ turn, attempt: 1, execution, text: piece }]);
      await sleep(plan.everyMs);
    }
    run = await commit(run, (draft) => log(draft, { type: "input_received", count: 1, by: stamp("entry") }));
    await sleep(plan.everyMs);
    run = await commit(run, (draft) => {
      draft.run.turns = turn;
      const message = append(draft, { role: "assistant", content: text });
      const manifest = { agentHash: "h", messages: [], tools: [], dropped: [] };
      const fields = { attempt: 1, execution, message, calls: [], usage: noUsage, finishReason: "stop", manifest };
      log(draft, { type: "model_answered", ...fields });
    });
    whole += text;
  }
  run = await commit(run, (draft) => {
    draft.run.status = "completed";
    draft.run.model = undefined;
    draft.run.endedAt = Date.now();
    log(draft, { type: "run_ended", status: "completed", stopReason: "answered" });
  });
  return { seq: run.eventSeq, text: whole };
}

async function obey(message: { create?: WriterPlan; write?: boolean; stop?: boolean }): Promise<void> {
  if (message.create) {
    plan = message.create;
    process.send?.(await create());
  }
  if (message.write) {
    const ends = await Promise.all(runs.map(async (run, index) => [run.runId, await write(run, index)] as const));
    process.send?.(Object.fromEntries(ends) satisfies Written);
  }
  if (message.stop) {
    await connection.close();
    process.disconnect();
  }
}

process.on("message", (message: Parameters<typeof obey>[0]) => void obey(message));
process.on("disconnect", () => process.exit(0));
process.send?.("ready");
