// What the commands tell of sessions, against a worker process.
import { expect, inject, test } from "vitest";
import { testPrefix } from "../support/redis.ts";
import { type CliResult, runDrover, startDrover, useWorker } from "./run-drover.ts";

const env = { REDIS_URL: inject("redisUrl"), DROVER_PREFIX: testPrefix() };
const drover = (...args: string[]): Promise<CliResult> => runDrover(args, { env });

useWorker(env);

test("start, show, list and watch tell who goes first in a session, and input can join who is active", async () => {
  const session = ["--session", "chat-1"];
  await drover("start", "sleeper", "rest", "--id", "first", ...session);
  await drover("start", "adder", "sum", "--id", "second", ...session);
  await drover("start", "adder", "sum", "--id", "third", ...session);
  await drover("start", "adder", "sum", "--id", "apart");
  const second = (await drover("show", "second")).stdout;
  expect(second).toMatch(/^status +queued$/m);
  expect(second).toMatch(/^session +chat-1 \(1 run goes first\)$/m);
  expect(second).toMatch(/^waits for +run first, which goes first in its session$/m);
  expect((await drover("show", "third")).stdout).toMatch(/^session +chat-1 \(2 runs go first\)$/m);
  expect((await drover("show", "first")).stdout).toMatch(/^session +chat-1$/m);
  expect((await drover("show", "apart")).stdout).not.toMatch(/^session/m);
  const listed = JSON.parse((await drover("list", ...session, "--json")).stdout) as { runs: { runId: string }[] };
  expect(listed.runs.map(({ runId }) => runId)).toEqual(["third", "second", "first"]);

  const given = await drover("start", "sleeper", "wake up", "--id", "more", "--inject", ...session, "--json");
  expect(JSON.parse(given.stdout)).toMatchObject({ runId: "first" });
  const own = await drover("start", "adder", "sum", "--id", "fourth", "--inject", ...session, "--json");
  expect(JSON.parse(own.stdout)).toMatchObject({ runId: "fourth", ahead: 3 });
  const alone = await drover("start", "adder", "sum", "--inject");
  expect(alone.stderr).toMatch(/session: must be the id of a session, since whenBusy is given/);
  expect(alone.code).toBe(1);

  const watching = startDrover(["watch", "fourth"], { env });
  await watching.untilOutput(/waits for run first of its session/);
  await drover("cancel", "first");
  expect((await watching.ended).stdout).toMatch(/The sums are 3 and 7\./);
  const last = JSON.parse((await drover("show", "fourth", "--json")).stdout) as { transcript: { content: unknown }[] };
  expect(last.transcript.map(({ content }) => content)).toEqual(["sum", null, "3", "7", "The sums are 3 and 7."]);
});
