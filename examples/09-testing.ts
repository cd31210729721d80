// Testing agents without Redis, network or waiting: the same engine in memory, a scripted model, a clock that moves when
// told, and processes that die at a point of your choice.
import { deepEqual, equal } from "node:assert/strict";
import { z } from "zod";
import { defineAgent, defineTool, RetryableError } from "../src/index.ts";
import { crashAt, createFaults, createMemoryDrover, manualClock, scriptedModel } from "../src/testing/index.ts";

const attempts: number[] = [];
const book = defineTool({
  name: "book",
  description: 'Books a table. Example: {"people":2}',
  parameters: z.object({ people: z.int().min(1).describe("How many, e.g. 2") }),
  retry: { attempts: 2, delayMs: 1_000 },
  execute: (_args, { attempt }) => {
    attempts.push(attempt);
    if (attempt === 1) throw new RetryableError("closed for lunch", { delayMs: 3_600_000 });
    return "Booked.";
  },
});
const model = scriptedModel([{ toolCalls: [{ name: "book", arguments: { people: 2 } }] }, "A table for two."]);
const host = defineAgent({ name: "host", instructions: "You book tables.", model, tools: [book] });

// A clock that only moves when told: the second attempt is an hour away, and no test waits for it.
const clock = manualClock();
const drover = createMemoryDrover({ agents: [host], clock });
await drover.work();
const run = await drover.start(host, "A table for two, please.");
await clock.whenSleeping();
console.log(`attempts: ${attempts.length}; next one in ${(clock.nextAt() ?? 0) - clock.now()} ms`);
deepEqual(attempts, [1]);
clock.advance(3_600_000);
const { status, output } = await run.result();
console.log(`an hour later: ${status}, ${output}`);
equal(status, "completed");
deepEqual(attempts, [1, 2]);
deepEqual(model.leftover(), []); // the whole script was used
await drover.close();

// Without a clock of yours, time jumps to whatever is due next.
attempts.length = 0;
const quick = createMemoryDrover({ agents: [host] });
await quick.work();
equal((await (await quick.start(host, "A table for two, please.")).result()).status, "completed");
await quick.close();

// Faults: anything with async methods can die at its n-th call, before or after the call took effect.
const ledger: string[] = [];
const faults = createFaults(crashAt(2, "after"));
const bank = faults.wrap("bank", { pay: async (to: string) => ledger.push(to) });
await bank.pay("ada");
const second = await bank.pay("bob").catch((error: Error) => error.message);
const third = await bank.pay("eve").catch((error: Error) => error.message);
console.log(`second call: ${second}; third: ${third}; paid: ${ledger.join(", ")}`);
deepEqual(ledger, ["ada", "bob"]); // the second took effect, and its caller never knew
equal(faults.dead(), true);
