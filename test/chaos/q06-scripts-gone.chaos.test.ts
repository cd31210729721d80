// Catches: a commit that is half applied because Redis has forgotten a script, or because a host refuses them where they stand.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { type FakeReply, type FakeRequest, turnOf } from "../support/fake-openai.ts";
import { startLossyRelay } from "../support/lossy-relay.ts";
import { startMonitor } from "../support/monitor.ts";
import { makeWorld, type World } from "../support/world.ts";
import { tellFigure } from "./support/figure.ts";
import { judge } from "./support/judge.ts";
import { isLong, seeded } from "./support/seed.ts";

const turnCount = isLong ? 25 : 10;
const flushes = isLong ? 20 : 8;

/** With each of its calls a turn is two steps more: the long run has 50 and more. */
function respond({ body }: FakeRequest): FakeReply {
  const turn = turnOf(body);
  if (turn === turnCount) return { text: "end" };
  const toolCalls = ["look", "put"].map((name) => ({ name, arguments: { note: `${name} ${turn}` } }));
  return { text: `turn ${turn}`, toolCalls, delayMs: 30 };
}

async function expectFinish(world: World, seed: number): Promise<void> {
  const run = world.drover.get("scripts");
  expect(await run.result({ timeoutMs: 60_000 })).toMatchObject({ status: "completed", turns: turnCount });
  expect(world.server.requests.length).toBe(turnCount);
  await judge(world, { seed, usage: "exact" });
}

test("[Q06] [G2] a run outlives the flushing of all scripts at random moments", async () => {
  const random = seeded();
  const world = await makeWorld({ respond, maxTurns: turnCount });
  await world.work();
  await world.drover.start("e2e", "scripts go", { runId: "scripts" });
  for (let flush = 0; flush < flushes; flush += 1) {
    await sleep(random.between(10, 120));
    await world.redis.script("FLUSH");
  }
  await expectFinish(world, random.seed);
  tellFigure("Q06", `${flushes} flushes of all scripts in one run of ${3 * turnCount - 2} steps, each made once`);
});

test("[Q06] a run outlives a Redis that drops scripts for those of others", async ({ skip }) => {
  const { seed } = seeded();
  const world = await makeWorld({ respond, maxTurns: turnCount });
  const version = /redis_version:(\d+)\.(\d+)/
    .exec(await world.redis.info("server"))
    ?.slice(1)
    .map(Number) ?? [0, 0];
  const drops = (version[0] ?? 0) > 7 || (version[0] === 7 && (version[1] ?? 0) >= 4);
  skip(!drops, `Redis ${version.join(".")} keeps every script; from 7.4 on it drops those of EVAL`);
  await world.work();
  await world.drover.start("e2e", "scripts go", { runId: "scripts" });
  for (let index = 0; index < 2_000; index += 1) await world.redis.eval(`return ${index}`, 0);
  await expectFinish(world, seed);
});

test("[Q06] a run outlives scripts that are unknown each time they are asked for, alone and in pipelines", async () => {
  const { seed } = seeded();
  const world = await makeWorld({ respond, maxTurns: turnCount });
  const relay = await startLossyRelay(world.options.redisUrl);
  onTestFinished(() => relay.close());
  await world.work({ redisUrl: relay.url });
  // All of one packet: what a host answers that loses its scripts again and again.
  const unknown = `evalsha\r\n$40\r\n${"0".repeat(40)}`;
  const stop = relay.rewrite(/evalsha\r\n\$40\r\n[0-9a-f]{40}/g, unknown, flushes * 5);
  onTestFinished(stop);
  await world.drover.start("e2e", "scripts go", { runId: "scripts" });
  await expectFinish(world, seed);
  expect(relay.rewritten()).toBeGreaterThan(flushes);
});

const isScript = (name: string, args: string[], prefix: string): boolean =>
  /^(eval|evalsha|fcall)/.test(name) && args.some((text) => text.startsWith(prefix));

test("[Q06] no script is sent in a MULTI, where one host refuses them", async () => {
  const { seed } = seeded();
  const world = await makeWorld({ respond, maxTurns: turnCount });
  const refused: string[] = [];
  let scripts = 0;
  const inMulti = new Set<string>();
  const monitor = await startMonitor(world.options.redisUrl, ({ name, args, source }) => {
    if (name === "multi") inMulti.add(source);
    else if (name === "exec" || name === "discard") inMulti.delete(source);
    else if (isScript(name, args, world.prefix)) {
      scripts += 1;
      if (inMulti.has(source)) refused.push(name);
    }
  });
  onTestFinished(() => monitor.stop());
  await world.work();
  await world.drover.start("e2e", "scripts go", { runId: "scripts" });
  await expectFinish(world, seed);
  expect(scripts).toBeGreaterThan(turnCount);
  expect(refused).toEqual([]);
});
