// Catches: a worker that was frozen, was given up for dead, and comes back to spoil what others finished meanwhile.
import { expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { turnOf } from "../support/fake-openai.ts";
import { problemsOf, textsOf } from "../support/transcript.ts";
import { makeWorld, readFeed, textSeen } from "../support/world.ts";

test.each([
  ["as they come", false],
  ["with every step redelivered", true],
])(
  "[G1] [G3] [G8] a worker frozen in a model call changes nothing when it wakes, steps %s",
  async (_title, redeliver) => {
    const world = await makeWorld({
      redeliver,
      respond: ({ index, body }) => {
        // The zombie's call stops in the middle of its answer.
        if (index === 0) return { deltas: ["from the ", "grave"], end: "hold" };
        if (turnOf(body) === 1) return { text: "first", toolCalls: [{ name: "put", arguments: { note: "a" } }] };
        return "second";
      },
    });
    const zombie = await world.work();
    const run = await world.drover.start("e2e", "zombie-1 go", { runId: "zombie-1" });
    await textSeen(run, "from the grave");
    zombie.stop();
    await world.work();
    expect(await run.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed", output: "second", turns: 2 });
    const transcript = await run.transcript();
    const feed = await readFeed(world, run.id);
    const { usage } = await run.status();

    const lateReports = async () => (await readFeed(world, run.id)).filter((event) => event.type === "usage_reported");
    zombie.resume();
    const usageReported = await eventually(async () => (await lateReports()).at(-1));
    expect(await run.transcript()).toEqual(transcript);
    expect(problemsOf(transcript)).toEqual([]);
    expect(textsOf(transcript)).toEqual(["first", "second"]);
    const after = await readFeed(world, run.id);
    expect(after.filter(({ type }) => type !== "usage_reported")).toEqual(feed);
    const late = (await run.status()).usage;
    // The server had no chance to tell what it counted: it is an estimate.
    expect(usageReported.usage.estimated).toBe(true);
    expect(late.inputTokens - usage.inputTokens).toBe(usageReported.usage.inputTokens);
    expect(usageReported.usage.inputTokens).toBeGreaterThan(0);
    expect(zombie.exited()).toBe(false);

    // The zombie is an ordinary worker again.
    const next = await world.drover.start("e2e", "zombie-2 go", { runId: "zombie-2" });
    expect(await next.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed" });
    expect((await lateReports()).length).toBe(1);
  },
);
